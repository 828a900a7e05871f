"""Outages and acts of people during them, and the audit: it finds nothing missing at any moment of catching up."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions.backfill import backfill_job
from jobs.actions.ledger_audit import RETENTION_MARGIN, audit
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.engine.housekeeper import Housekeeper
from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from tests import factories
from tests.engine.outages.outage import DAY, Clock, Engine, differences
from tests.factories import HOUR, MINUTE, make_tenant

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
POLICIES = ("fire_once", "skip", "fire_all", "backfill")


def create(policy: str, *, every_seconds: int = 60) -> Job:
    schedule = {"type": "interval", "every_seconds": every_seconds}
    document = {"name": "nightly", "job_type": "noop", "schedule": schedule, "overlap_policy": "queue"}
    job = actions.create_job(tenant=make_tenant(), definition=document)
    Job.objects.filter(id=job.id).update(misfire_policy=policy, max_catchup=20)
    return job


class TestTheAudit:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("away", [5 * MINUTE, 2 * HOUR, 2 * DAY], ids=["minutes", "hours", "days"])
    def test_finds_nothing_while_and_after_an_outage_is_caught_up_with(
        self, engine: Engine, clock: Clock, policy: str, away: timedelta
    ) -> None:
        # Of firings that all run, each takes a turn.
        pauses = {5 * MINUTE: 60, 2 * HOUR: 240, 2 * DAY: 3600}
        job = create(policy, every_seconds=pauses[away] if policy == "fire_all" else 60)
        engine.turn()
        clock(away)
        for _ in range(5):
            engine.turn()
            engine.time.seconds += 1
            assert differences() == []
        engine.settle()
        clock(away + 10 * MINUTE)
        engine.settle()
        assert differences() == []
        gone = Trigger.objects.filter(job=job, scheduled_for__lte=factories.now() - MINUTE).first()
        assert gone is not None
        gone.delete()
        assert differences() == [("missing", gone.scheduled_for)]

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize(
        "act",
        [
            lambda **job: actions.update_job(changes={"schedule": {"every_seconds": 45}}, **job),
            lambda **job: actions.update_job(changes={"priority": "low"}, **job),
            actions.pause_job,
            actions.cancel_job,
            actions.delete_job,
        ],
        ids=["another schedule", "another priority", "a pause", "a cancel", "a delete"],
    )
    @pytest.mark.parametrize("turns", [0, 1, 4])
    def test_finds_nothing_when_catching_up_is_cut_short_by(
        self, engine: Engine, clock: Clock, policy: str, act: Any, turns: int
    ) -> None:
        job = create(policy)
        engine.turn()
        clock(2 * DAY)
        for _ in range(turns):
            engine.turn()
            engine.time.seconds += 1
        act(tenant=job.tenant, job_id=job.id)
        # A firing that no beat has seen, and that the act leaves to a beat, has no record before the beat's next turn.
        assert not turns or differences() == []
        clock(2 * DAY + 10 * MINUTE)
        for _ in range(3):
            engine.turn()
            engine.time.seconds += 1
        if act is actions.pause_job:
            actions.resume_job(tenant=job.tenant, job_id=job.id)
            engine.turn()
        assert differences() == []
        assert CatchUp.objects.exists() or SkippedRange.objects.exists()

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("turns", [0, 4], ids=["afterwards", "while it is caught up with"])
    def test_finds_nothing_when_an_operator_backfills_what_an_outage_skipped(
        self, engine: Engine, clock: Clock, policy: str, turns: int
    ) -> None:
        job = create(policy, every_seconds=3600 if policy == "fire_all" else 60)
        engine.turn()
        clock(2 * DAY)
        for _ in range(turns):
            engine.turn()
            engine.time.seconds += 1
        if not turns:
            engine.settle()
        start = factories.now() - DAY
        end = start + (HOUR if policy == "fire_all" else 20 * MINUTE)
        _, backfill = backfill_job(tenant=job.tenant, job_id=job.id, start=start, end=end, dry_run=False)
        for _ in range(5):
            engine.turn()
            engine.time.seconds += 1
            assert differences() == []
        engine.settle()
        assert differences() == []
        backfill.refresh_from_db()
        assert backfill.finished_at is not None
        ran = Trigger.objects.filter(job=job, origin="backfill", state="succeeded").count()
        skipped = SkippedRange.objects.filter(from_at__lte=start, until_at__gte=end)
        if policy != "fire_all":
            assert ran == 20
            assert skipped.exists() or turns


class TestRetention:
    def test_takes_nothing_that_an_audit_goes_by(self, engine: Engine, clock: Clock) -> None:
        """Four months of outages, edits and pauses, purged every ten days except for the last thirty."""
        job = create("skip", every_seconds=3600)
        housekeeper = Housekeeper(retention=30 * DAY, trail_retention=30 * DAY)
        catch_ups = CatchUps(pace=Pace())
        most = 0
        for tenth in range(1, 13):
            clock(tenth * 10 * DAY)
            engine.turn()
            catch_ups.step(leadership=factories.ANYONE, budget=HOUR)
            changes = {"schedule": {"every_seconds": 3600 + tenth}}
            actions.update_job(tenant=job.tenant, job_id=job.id, changes=changes)
            if tenth % 3 == 0:
                actions.pause_job(tenant=job.tenant, job_id=job.id)
                clock(tenth * 10 * DAY + 5 * DAY)
                actions.resume_job(tenant=job.tenant, job_id=job.id)
            for step in housekeeper.steps:
                step.hurry()
            housekeeper.keep()
            horizon = factories.now() - 30 * DAY + RETENTION_MARGIN
            until = factories.now() - MINUTE
            [result] = audit(jobs=Job.objects.all(), since=max(job.created_at, horizon), until=until)
            assert result.differences == []
            most = max(most, JobVersion.objects.count(), CatchUp.objects.count())
        assert most < 10

"""A job is changed before its outage is caught up with: its missed firings end as if it had not been changed."""

from collections import Counter
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions import jobs as actions
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from tests import factories
from tests.engine.outages.outage import DAY, Clock, Engine, differences
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_tenant

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
#: The same 119 firings were missed, in two spellings.
SCHEDULES = {
    "interval": {"type": "interval", "every_seconds": 60},
    "cron": {"type": "cron", "cron": "* * * * *", "timezone": "Europe/Berlin"},
}
EDITS = {
    "another interval": {"schedule": {"type": "interval", "every_seconds": 45}},
    "another cron": {"schedule": {"type": "cron", "cron": "7 * * * *", "timezone": "Asia/Tokyo"}},
    "another policy": {"misfire_policy": "skip", "max_catchup": 1, "catchup_window_seconds": 0},
    "another type": {"schedule": {"type": "once", "run_at": "2090-01-01T00:00:00Z"}},
}
#: How the firings end without any edit: as in DESIGN §9, with a window of an hour and at most 20.
FATES = {
    "fire_once": Counter({"misfire": 60, "coalesced": 58, "ran": 1}),
    "skip": Counter({"misfire": 119}),
    "fire_all": Counter({"ran": 119}),
    "backfill": Counter({"misfire": 99, "ran": 20}),
}


def create(policy: str, schedule: dict[str, Any] = SCHEDULES["interval"], **fields: Any) -> Job:
    document = {"name": "nightly", "job_type": "noop", "misfire_policy": policy, "max_catchup": 20}
    document |= {"schedule": schedule, "overlap_policy": "allow", "max_concurrent": 1000}
    return actions.create_job(tenant=make_tenant(), definition=document | fields)


def fates(job: Job, *, until: Any) -> Counter[str]:
    """How the firings up to ``until`` ended, counted by reason; ``ran`` counts those that ran late."""
    found: Counter[str] = Counter()
    for trigger in Trigger.objects.filter(job=job, scheduled_for__lte=until).exclude(
        origin="schedule", state="succeeded"
    ):
        found["ran" if trigger.origin == "catchup" else trigger.reason] += 1
    for skipped in SkippedRange.objects.filter(job=job, until_at__lte=until):
        found[skipped.reason] += skipped.count
    return found


def decide() -> None:
    CatchUps(pace=Pace()).step(leadership=ANYONE, budget=MINUTE)


class TestAnEdit:
    @pytest.mark.parametrize("turns", [0, 1, 3], ids=["before any beat", "in hand", "half done"])
    @pytest.mark.parametrize(
        ("schedule", "edit"),
        [
            ("interval", "another interval"),
            ("cron", "another cron"),
            ("interval", "another policy"),
            ("cron", "another type"),
        ],
    )
    @pytest.mark.parametrize("policy", FATES)
    def test_leaves_what_was_missed_to_the_policy_and_schedule_it_was_missed_under(
        self, engine: Engine, clock: Clock, policy: str, schedule: str, edit: str, turns: int
    ) -> None:
        job = create(policy, SCHEDULES[schedule])
        engine.turn()
        away = (
            job.next_fire_at - job.created_at + 119 * MINUTE + 30 * SECOND
        )  # to half a minute after a firing
        clock(away)
        missed_until = factories.now() - MINUTE
        for _ in range(turns):
            engine.turn()
            engine.time.seconds += 1
        actions.update_job(tenant=job.tenant, job_id=job.id, changes=EDITS[edit])
        assert not turns or differences() == []
        engine.beat.cycle._pace.note(job.tenant_id, 600)
        engine.settle()
        assert fates(job, until=missed_until) == FATES[policy]
        assert differences() == []
        late = Trigger.objects.filter(job=job, origin="catchup")
        versions = set(late.values_list("job_version", flat=True))
        assert versions <= ({2} if turns < 2 else {1, 2})

    def test_after_another_keeps_to_the_first_of_three_schedules(self, engine: Engine, clock: Clock) -> None:
        job = create("skip")
        engine.turn()
        clock(2 * HOUR + 30 * SECOND)
        engine.beat.cycle._materialize(ANYONE)
        for seconds in (45, 50):
            actions.update_job(
                tenant=job.tenant, job_id=job.id, changes={"schedule": {"every_seconds": seconds}}
            )
        engine.settle()
        assert differences() == []
        assert fates(job, until=factories.now() - MINUTE)["misfire"] == 119

    def test_that_mends_a_broken_schedule_is_not_undone_by_its_past(
        self, engine: Engine, clock: Clock
    ) -> None:
        job = create("skip", SCHEDULES["cron"])
        clock(2 * HOUR)
        engine.beat.cycle._materialize(ANYONE)
        JobVersion.objects.update(
            schedule={**JobVersion.objects.get().schedule, "timezone": "Atlantis/Capital"}
        )
        Job.objects.update(timezone="Atlantis/Capital")
        engine.turn()
        job.refresh_from_db()
        assert (job.status, CatchUp.objects.get().finished_at) == ("paused", None)
        actions.update_job(tenant=job.tenant, job_id=job.id, changes={"schedule": SCHEDULES["interval"]})
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        engine.turn()
        job.refresh_from_db()
        assert job.status == "active"
        assert CatchUp.objects.get().finished_at is not None

    def test_that_pauses_first_holds_what_was_missed_until_the_job_goes_on(
        self, engine: Engine, clock: Clock
    ) -> None:
        job = create("fire_all")
        engine.turn()
        clock(30 * MINUTE)
        engine.beat.cycle._materialize(ANYONE)
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        actions.update_job(tenant=job.tenant, job_id=job.id, changes=EDITS["another cron"])
        engine.turn()
        assert not Trigger.objects.filter(origin="catchup").exists()
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        engine.settle()
        assert differences() == []
        assert fates(job, until=factories.now() - MINUTE)["ran"] >= 27


class TestAnEnd:
    """An end costs the same however many firings it leaves: the leader counts a year of seconds."""

    YEAR = 365 * DAY

    @pytest.fixture(params=["cron", "interval"])
    def secondly(self, request: pytest.FixtureRequest) -> Job:
        cron = {"type": "cron", "cron": "* * * * * ?", "cron_dialect": "quartz", "timezone": "Europe/Berlin"}
        every = {"type": "interval", "every_seconds": 1}
        return create("fire_all", cron if request.param == "cron" else every)

    def act(self, action: Any, job: Job) -> int:
        """The number of statements that the action takes."""
        with CaptureQueriesContext(connection) as queries:
            action(tenant=job.tenant, job_id=job.id)
        return len(queries)

    @pytest.mark.parametrize("action", [actions.cancel_job, actions.delete_job])
    @pytest.mark.parametrize("seen", [False, True], ids=["before any beat", "in hand"])
    def test_by_a_cancel_is_handed_to_the_leader(
        self, engine: Engine, clock: Clock, secondly: Job, action: Any, seen: bool
    ) -> None:
        clock(self.YEAR)
        if seen:
            engine.beat.cycle._materialize(ANYONE)
        assert self.act(action, secondly) < 25
        assert not SkippedRange.objects.exists()
        assert Trigger.objects.count() < 1000
        decide()
        [skipped] = SkippedRange.objects.all()
        assert (skipped.reason, CatchUp.objects.filter(finished_at=None).count()) == ("misfire", 0)
        assert abs(skipped.count - self.YEAR / SECOND) < 200
        assert differences() == []

    def test_of_a_pause_is_handed_to_the_leader(self, clock: Clock, secondly: Job) -> None:
        actions.pause_job(tenant=secondly.tenant, job_id=secondly.id)
        clock(self.YEAR)
        assert self.act(actions.resume_job, secondly) < 25
        assert (Trigger.objects.count(), SkippedRange.objects.count()) == (0, 0)
        decide()
        [skipped] = SkippedRange.objects.all()
        assert skipped.reason == "paused"
        assert abs(skipped.count - self.YEAR / SECOND) < 10
        assert differences() == []

    def test_of_a_pause_by_an_edit_is_handed_to_the_leader_who_does_not_wait_for_the_resume(
        self, clock: Clock, secondly: Job
    ) -> None:
        actions.pause_job(tenant=secondly.tenant, job_id=secondly.id)
        clock(self.YEAR)
        actions.update_job(tenant=secondly.tenant, job_id=secondly.id, changes=EDITS["another interval"])
        decide()
        assert SkippedRange.objects.get().reason == "paused"
        assert differences() == []

    def test_of_few_firings_puts_them_on_record_one_by_one(self, clock: Clock, engine: Engine) -> None:
        job = create("fire_once")
        clock(2 * HOUR + SECOND)
        actions.cancel_job(tenant=job.tenant, job_id=job.id)
        decide()
        assert Counter(Trigger.objects.values_list("state", "reason")) == {
            ("skipped", "misfire"): 119,
            ("cancelled", "job_cancelled"): 1,
        }
        assert differences() == []

    def test_leaves_nothing_to_run_of_what_had_been_decided(self, clock: Clock, engine: Engine) -> None:
        job = create("backfill")
        clock(2 * HOUR)
        engine.beat.cycle._materialize(ANYONE)
        CatchUps(pace=Pace())._decide(ANYONE, deadline=float("inf"))
        assert len(CatchUp.objects.get().tail) == 20
        actions.cancel_job(tenant=job.tenant, job_id=job.id)
        decide()
        assert sum(SkippedRange.objects.values_list("count", flat=True)) == 20
        assert not Trigger.objects.filter(origin="catchup").exists()
        assert differences() == []

    def test_of_more_on_time_firings_than_an_action_may_make_runs_them_all(
        self, clock: Clock, engine: Engine
    ) -> None:
        job = create("skip", {"type": "interval", "every_seconds": 2}, misfire_grace_seconds=7200)
        clock(HOUR)
        actions.update_job(tenant=job.tenant, job_id=job.id, changes=EDITS["another cron"])
        past = CatchUp.objects.get()
        assert (Trigger.objects.count(), past.policy, past.from_at) == (
            1000,
            "fire_all",
            job.created_at + 2002 * SECOND,
        )
        assert differences() == []

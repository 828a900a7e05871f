"""People pause, resume, cancel and delete jobs, with real triggers in every state (DESIGN §4)."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.core.errors import Conflict, NotFound
from jobs.core.schedule import jitter_offset
from jobs.models import CatchUp
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant, make_trigger, now, row, state_of
from tests.interfaces.job_actions.jobs import DAY, ENDED, create, in_every_state, step_beat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestPause:
    def test_stops_what_waits_and_lets_finish_what_runs(self) -> None:
        job = make_job()
        triggers = in_every_state(job)
        paused = actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert paused.status == "paused"
        after = {name: row(trigger) for name, trigger in triggers.items()}
        assert (after["queued"]["state"], after["queued"]["held"]) == ("pending", True)
        assert [after[name]["held"] for name in ("pending", "retrying")] == [True, True]
        assert [after[name]["state"] for name in ("running", *ENDED)] == ["running", *ENDED]
        assert not after["running"]["cancel_requested"]
        assert factories.dispatch().queued == []
        assert factories.claim(triggers["queued"]) == []

    def test_of_a_paused_job_changes_nothing(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        assert actions.pause_job(tenant=job.tenant, job_id=job.id).status_reason

    @pytest.mark.parametrize("status", ["cancelled", "completed"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.pause_job(tenant=job.tenant, job_id=job.id)


class TestResume:
    def test_skips_what_fell_due_meanwhile_and_goes_on_from_now(self, clock: Any) -> None:
        job = create(schedule={"type": "interval", "every_seconds": 60})
        step_beat()
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(210 * SECOND)
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert resumed.next_fire_at == job.created_at + 4 * MINUTE
        recorded = [(t.scheduled_for, t.state, t.reason) for t in job.triggers.order_by("scheduled_for")]
        assert recorded == [(job.created_at + n * MINUTE, "skipped", "paused") for n in (1, 2, 3)]

    def test_of_a_short_pause_loses_nothing_that_jitter_puts_off(self, clock: Any) -> None:
        jittered = {"type": "interval", "every_seconds": 86_400, "jitter_seconds": 86_000}
        tenant, offset = make_tenant(), timedelta()
        while offset < HOUR:
            job = create(tenant, name=f"job {now()}", schedule=jittered)
            offset = jitter_offset(job.id.int, job.jitter)
        clock(DAY + SECOND)
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(DAY + 2 * SECOND)
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        step_beat()
        [waiting] = job.triggers.all()
        first = job.created_at + DAY
        assert (waiting.scheduled_for, waiting.due_at) == (first, first + offset)
        assert (waiting.state, waiting.held) == ("pending", False)
        assert resumed.next_fire_at == first + DAY

    def test_lets_run_what_was_queued_before_the_pause(self) -> None:
        job = create()
        queued = make_trigger(job, "queued")
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert (row(queued)["state"], row(queued)["held"]) == ("pending", False)
        assert [item.id for item in factories.dispatch().queued] == [queued.id]

    def test_leaves_what_was_missed_before_the_pause_to_the_misfire_policy(self, clock: Any) -> None:
        job = create()
        clock(2 * HOUR + 30 * SECOND)
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        clock(26 * HOUR + 30 * SECOND)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        missed, paused = CatchUp.objects.order_by("from_at")
        assert (missed.policy, missed.reason, missed.from_at) == ("fire_once", "", job.created_at + MINUTE)
        assert missed.until_at < job.created_at + 2 * HOUR
        assert (paused.reason, paused.from_at) == ("paused", job.created_at + 2 * HOUR + MINUTE)
        [on_time] = job.triggers.all()
        assert (on_time.scheduled_for, on_time.state) == (job.created_at + 2 * HOUR, "pending")

    def test_puts_back_what_was_tried_or_asked_for(self) -> None:
        job = make_job()
        retrying, asked = make_trigger(job, "retrying"), make_trigger(job, origin="run_now")
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert [(row(t)["state"], row(t)["held"]) for t in (retrying, asked)] == [
            ("retrying", False),
            ("pending", False),
        ]

    def test_clears_the_reason(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        resumed = actions.resume_job(tenant=job.tenant, job_id=job.id)
        assert (resumed.status, resumed.status_reason) == ("active", "")

    def test_refuses_a_schedule_that_cannot_be_computed(self) -> None:
        job = make_job(
            status="paused", schedule_type="cron", cron_expression="0 2 * * *", timezone="Gone/Away"
        )
        with pytest.raises(Conflict, match="Gone/Away"):
            actions.resume_job(tenant=job.tenant, job_id=job.id)

    @pytest.mark.parametrize("status", ["cancelled", "completed"])
    def test_refuses_a_job_that_is(self, status: str) -> None:
        job = make_job(status=status)
        with pytest.raises(Conflict):
            actions.resume_job(tenant=job.tenant, job_id=job.id)


class TestCancel:
    def test_ends_what_waits_and_asks_what_runs_to_stop(self) -> None:
        job = make_job(next_fire_at=now() + MINUTE)
        triggers = in_every_state(job)
        cancelled = actions.cancel_job(tenant=job.tenant, job_id=job.id)
        assert (cancelled.status, cancelled.next_fire_at) == ("cancelled", None)
        for name in ("pending", "queued", "retrying"):
            assert state_of(triggers[name]) == ("cancelled", "job_cancelled")
        assert row(triggers["running"])["cancel_requested"]
        assert [state_of(triggers[name])[0] for name in ENDED] == list(ENDED)
        assert factories.claim(triggers["queued"]) == []

    def test_records_what_no_beat_had_materialized(self, clock: Any) -> None:
        job = create()
        clock(150 * SECOND)
        actions.cancel_job(tenant=job.tenant, job_id=job.id)
        assert [(t.state, t.reason) for t in job.triggers.all()] == [("cancelled", "job_cancelled")] * 2

    def test_may_be_repeated(self) -> None:
        job = make_job(status="cancelled")
        assert actions.cancel_job(tenant=job.tenant, job_id=job.id).status == "cancelled"

    def test_cannot_be_undone(self) -> None:
        job = make_job(status="cancelled")
        for action in (actions.pause_job, actions.resume_job, actions.run_job_now):
            with pytest.raises(Conflict):
                action(tenant=job.tenant, job_id=job.id)


class TestDelete:
    def test_cancels_hides_and_keeps_the_history(self) -> None:
        job = make_job()
        triggers = in_every_state(job)
        deleted = actions.delete_job(tenant=job.tenant, job_id=job.id)
        assert deleted.deleted_at is not None
        assert state_of(triggers["pending"]) == ("cancelled", "job_cancelled")
        assert job.triggers.count() == len(triggers)
        with pytest.raises(NotFound):
            actions.find_job(tenant=job.tenant, job_id=job.id)


class TestSetStatus:
    def test_is_pause_resume_and_cancel_by_name(self) -> None:
        job = make_job()
        for status in ("paused", "active", "cancelled"):
            assert actions.set_status(tenant=job.tenant, job_id=job.id, status=status).status == status

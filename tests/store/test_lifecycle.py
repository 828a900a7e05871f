"""Acts of people on triggers: pause, resume, edit, cancel and replay, each statement by itself."""

from datetime import datetime
from typing import Any

import pytest

from jobs.models import Job, JobVersion, Trigger
from jobs.store import lifecycle as lifecycle_store
from tests import factories
from tests.factories import (
    HOUR,
    MINUTE,
    claim,
    dispatch,
    make_job,
    make_running,
    make_trigger,
    row,
    state_of,
    states,
)

pytestmark = pytest.mark.django_db
ENDED = ("succeeded", "dead", "skipped", "cancelled")


class TestPause:
    def test_hands_back_what_is_queued_and_kills_its_message(self) -> None:
        job = make_job()
        queued, running = make_trigger(job, "queued"), make_trigger(job, "running")
        other = make_trigger(state="queued")
        assert lifecycle_store.hand_back(job_ids=[job.id]) == 1
        assert states([queued, running, other]) == ["pending", "running", "queued"]
        assert claim(queued) == []

    def test_hides_waiting_triggers_and_shows_them_again(self) -> None:
        job = make_job()
        waiting = [make_trigger(job), make_trigger(job, "retrying")]
        running = make_trigger(job, "running")
        lifecycle_store.hold(job_ids=[job.id], held=True)
        assert [row(trigger)["held"] for trigger in [*waiting, running]] == [True, True, False]
        assert dispatch().queued == []
        lifecycle_store.hold(job_ids=[job.id], held=False)
        assert len(dispatch().queued) == 2


class TestResume:
    def test_skips_what_fell_due_during_the_pause(self) -> None:
        job = make_job()
        paused_at, now = factories.now() - HOUR, factories.now()
        during = make_trigger(job, held=True, scheduled_for=paused_at, due_at=paused_at)
        late = make_trigger(job, held=True, scheduled_for=paused_at - HOUR, due_at=now)
        kept = [
            make_trigger(job, held=True, scheduled_for=paused_at - MINUTE),
            make_trigger(job, held=True, scheduled_for=paused_at + MINUTE, due_at=now + 2 * MINUTE),
            make_trigger(job, held=True, scheduled_for=now + HOUR),
            make_trigger(job, "retrying", held=True, due_at=paused_at + MINUTE),
        ]
        assert lifecycle_store.skip_paused({job.id: paused_at}, now=now) == 2
        assert [state_of(trigger) for trigger in (during, late)] == [("skipped", "paused")] * 2
        assert states(kept) == ["pending", "pending", "pending", "retrying"]

    @pytest.mark.parametrize(
        "columns",
        [{"origin": "run_now"}, {"replay_count": 1}, {"attempt_count": 1}],
        ids=lambda c: next(iter(c)),
    )
    def test_keeps_what_somebody_asked_for_and_what_was_tried(self, columns: dict[str, Any]) -> None:
        trigger = make_trigger(held=True, **columns)
        assert lifecycle_store.skip_paused({trigger.job_id: factories.now() - HOUR}, now=factories.now()) == 0
        assert state_of(trigger) == ("pending", "")


class TestPausedSince:
    @pytest.mark.parametrize(
        ("timeline", "expected"),
        [
            (["active", "paused"], 1),
            (["active", "paused", "paused"], 1),
            (["active", "paused", "active", "paused", "paused"], 3),
        ],
    )
    def test_is_the_beginning_of_the_present_pause(self, timeline: list[str], expected: int) -> None:
        job = make_job(status="paused")
        begin = factories.now() - HOUR
        for index, status in enumerate(timeline):
            add_version(job, status, begin + index * MINUTE)
        assert lifecycle_store.paused_since(job_ids=[job.id]) == {job.id: begin + expected * MINUTE}

    def test_is_the_jobs_creation_where_the_timeline_does_not_know(self) -> None:
        unknown, purged = make_job(status="paused"), make_job(status="paused")
        add_version(purged, "paused", factories.now() - MINUTE)
        assert lifecycle_store.paused_since(job_ids=[unknown.id, purged.id]) == {
            job.id: job.created_at for job in (unknown, purged)
        }


def add_version(job: Job, status: str, valid_from: datetime) -> None:
    JobVersion.objects.create(
        job=job, tenant_id=job.tenant_id, version=1, status=status, schedule={}, valid_from=valid_from
    )


class TestEdit:
    def test_withdraws_firings_that_lie_ahead(self) -> None:
        job = make_job()
        ahead = factories.now() + HOUR
        gone = make_trigger(job, scheduled_for=ahead)
        kept = [
            make_trigger(job),
            make_trigger(job, scheduled_for=ahead + HOUR, origin="run_now"),
            make_trigger(job, scheduled_for=ahead + 2 * HOUR, replay_count=1),
            make_trigger(job, "succeeded", scheduled_for=ahead + 3 * HOUR),
            make_trigger(scheduled_for=ahead),
        ]
        assert lifecycle_store.withdraw_future(job_ids=[job.id], now=factories.now()) == 1
        assert row(gone) == {}
        assert all(row(trigger) for trigger in kept)

    def test_hands_waiting_triggers_to_the_new_version(self) -> None:
        job, second = make_job(), make_job()
        waiting = [make_trigger(job), make_trigger(job, "retrying"), make_trigger(job, "queued")]
        others = [make_trigger(job, "running"), make_trigger(job, "succeeded"), make_trigger()]
        before = [row(trigger) for trigger in others]
        of_second = make_trigger(second)
        job.version, job.priority, job.job_type = 2, 0, "webhook"
        second.version = 3
        lifecycle_store.restamp([job, second])
        for trigger in waiting:
            stored = row(trigger)
            assert (stored["job_version"], stored["priority"], stored["job_type"]) == (2, 0, "webhook")
        assert (row(of_second)["job_version"], row(of_second)["job_type"]) == (3, second.job_type)
        assert [row(trigger) for trigger in others] == before


class TestCancelJob:
    def test_cancels_the_waiting_and_asks_the_running_to_stop(self) -> None:
        job = make_job()
        waiting = [make_trigger(job, state) for state in ("pending", "retrying", "queued")]
        running, other = make_trigger(job, "running"), make_trigger()
        ended = [make_trigger(job, state) for state in ENDED]
        before = [row(trigger) for trigger in [*ended, other]]
        assert lifecycle_store.cancel_jobs(job_ids=[job.id]) == 4
        assert [state_of(trigger) for trigger in waiting] == [("cancelled", "job_cancelled")] * 3
        assert all(row(trigger)["finished_at"] and not row(trigger)["held"] for trigger in waiting)
        stored = row(running)
        assert (stored["state"], stored["cancel_requested"], stored["finished_at"]) == ("running", True, None)
        assert [row(trigger) for trigger in [*ended, other]] == before

    def test_cancels_what_a_pause_holds(self) -> None:
        trigger = make_trigger(held=True)
        lifecycle_store.cancel_jobs(job_ids=[trigger.job_id])
        assert state_of(trigger) == ("cancelled", "job_cancelled")


class TestCancel:
    def test_cancels_one_waiting_trigger(self) -> None:
        job = make_job()
        one, other = make_trigger(job), make_trigger(job)
        assert lifecycle_store.cancel(trigger_id=one.id, tenant_id=one.tenant_id)
        assert (state_of(one), state_of(other)) == (("cancelled", "requested"), ("pending", ""))

    def test_asks_a_running_one(self) -> None:
        trigger, _ = make_running()
        assert lifecycle_store.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
        assert (row(trigger)["state"], row(trigger)["cancel_requested"]) == ("running", True)

    @pytest.mark.parametrize("state", ENDED)
    def test_says_when_it_is_too_late(self, state: str) -> None:
        trigger = make_trigger(state=state)
        assert not lifecycle_store.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)

    @pytest.mark.parametrize("state", ["pending", "running"])
    def test_of_another_tenants_trigger_changes_nothing(self, state: str) -> None:
        trigger = make_trigger(state=state)
        before = row(trigger)
        assert not lifecycle_store.cancel(trigger_id=trigger.id, tenant_id=factories.make_tenant().id)
        assert row(trigger) == before


class TestReplay:
    def test_sends_a_dead_trigger_through_once_more_with_a_fresh_budget(self) -> None:
        trigger = make_trigger(
            make_job(version=5),
            "dead",
            attempt_count=5,
            crash_count=2,
            fence=6,
            cancel_requested=True,
            result=1,
        )
        assert lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id) == [trigger.id]
        stored = row(trigger)
        assert (stored["state"], stored["reason"], stored["result"]) == ("pending", "", None)
        assert (stored["attempt_count"], stored["budget_start"], stored["crash_count"]) == (5, 5, 0)
        assert (stored["fence"], stored["replay_count"], stored["cancel_requested"]) == (6, 1, False)
        assert (stored["job_version"], stored["idempotency_key"]) == (5, trigger.idempotency_key)
        assert (stored["started_at"], stored["finished_at"]) == (None, None)

    def test_goes_by_the_job_as_it_is_now(self) -> None:
        trigger = make_trigger(state="dead")
        Job.objects.filter(id=trigger.job_id).update(job_type="webhook", priority=0, version=2)
        assert lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)
        stored = row(trigger)
        assert (stored["job_type"], stored["priority"], stored["job_version"]) == ("webhook", 0, 2)
        assert [item.id for item in dispatch(types=["webhook"]).queued] == [trigger.id]

    def test_runs_whatever_the_misfire_policy_says_of_its_age(self) -> None:
        job = make_job(misfire_policy="skip", overlap_policy="skip")
        trigger = make_trigger(job, "skipped", scheduled_for=factories.now() - 5 * HOUR)
        lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)
        assert [item.id for item in dispatch().queued] == [trigger.id]

    def test_takes_many_and_only_what_has_ended(self) -> None:
        job = make_job()
        ended, waiting = [make_trigger(job, state) for state in ENDED], make_trigger(job)
        ids = [trigger.id for trigger in [*ended, waiting]]
        assert set(lifecycle_store.replay(trigger_ids=ids, tenant_id=job.tenant_id)) == set(ids[:-1])
        assert row(waiting)["replay_count"] == 0

    def test_happens_once(self) -> None:
        trigger = make_trigger(state="dead")
        for expected in ([trigger.id], []):
            assert lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id) == expected
        assert row(trigger)["replay_count"] == 1

    def test_refuses_another_tenant(self) -> None:
        trigger = make_trigger(state="dead")
        assert lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=factories.make_tenant().id) == []
        assert state_of(trigger) == ("dead", "exhausted")

    @pytest.mark.parametrize("change", [{"status": "cancelled"}, {"deleted_at": factories.utc(2026, 1, 1)}])
    def test_refuses_triggers_of_a_job_that_is_gone(self, change: dict[str, Any]) -> None:
        trigger = make_trigger(state="dead")
        Job.objects.filter(id=trigger.job_id).update(**change)
        assert lifecycle_store.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id) == []
        assert Trigger.objects.get(id=trigger.id).state == "dead"

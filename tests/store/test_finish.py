"""Finish, renew and progress: a worker's writes about its claimed triggers, and writes that it may no longer make."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.core.states import TriggerState
from jobs.models import Attempt, Job, Trigger
from jobs.store import execution, lifecycle
from jobs.store.execution import ClaimToken
from tests import factories
from tests.factories import (
    attempts,
    claim_token,
    finish_of,
    make_job,
    make_running,
    make_trigger,
    row,
    state_of,
)

pytestmark = pytest.mark.django_db


#: Columns that no two triggers or attempts share.
OWN = {
    "id",
    "job_id",
    "tenant_id",
    "trigger_id",
    "idempotency_key",
    "scheduled_for",
    "due_at",
    "created_at",
    "announced_at",
    "queued_at",
    "started_at",
}


def written(trigger: Trigger, attempt: Attempt) -> tuple[dict[str, Any], ...]:
    """All columns that a finish may write; times are reduced to whether they are set."""
    rows = (row(trigger), Attempt.objects.values().get(id=attempt.id))
    return tuple(
        {
            key: bool(value) if key in ("finished_at", "duration", "lease_expires_at") else value
            for key, value in columns.items()
            if key not in OWN
        }
        for columns in rows
    )


class TestFinish:
    def test_writes_trigger_and_attempt_together(self) -> None:
        trigger, attempt = make_running()
        assert execution.finish(
            [finish_of(trigger, attempt, result={"sum": 3}, http_status=204, response_excerpt="ok")]
        ) == {trigger.id: TriggerState.SUCCEEDED}
        stored = row(trigger)
        assert (stored["state"], stored["result"], stored["lease_expires_at"]) == (
            "succeeded",
            {"sum": 3},
            None,
        )
        assert stored["finished_at"] is not None
        attempt.refresh_from_db()
        assert (attempt.state, attempt.http_status, attempt.response_excerpt) == ("succeeded", 204, "ok")
        lasted = attempt.finished_at - attempt.started_at
        assert abs(attempt.duration - lasted) < timedelta(milliseconds=50)

    def test_writes_many_outcomes_of_all_kinds_at_once(self) -> None:
        kinds = ["succeeded", "retrying", "dead", "cancelled"]
        hands = [make_running() for _ in kinds]
        execution.finish([finish_of(*hand, state=kind) for hand, kind in zip(hands, kinds, strict=True)])
        assert factories.states([trigger for trigger, _ in hands]) == kinds
        assert [attempts(trigger)[0].state for trigger, _ in hands] == [
            "succeeded",
            "failed",
            "failed",
            "cancelled",
        ]

    @pytest.mark.parametrize(
        ("columns", "attempt_columns"),
        [
            ({}, {}),
            ({"cancel_requested": True, "cancel_reason": "requested"}, {}),
            ({"fence": 2}, {}),
            (
                {"state": "retrying", "lease_expires_at": None},
                {"state": "lost", "error_code": "lease_expired"},
            ),
            ({"state": "succeeded", "lease_expires_at": None}, {"state": "succeeded"}),
            (
                {"state": "succeeded", "lease_expires_at": None},
                {"state": "cancelled", "error_code": "cancelled"},
            ),
        ],
    )
    def test_writes_the_same_of_a_success_alone_and_in_a_group(
        self, columns: dict[str, Any], attempt_columns: dict[str, Any]
    ) -> None:
        alone, grouped, other = (make_running() for _ in range(3))
        Trigger.objects.filter(id__in=[alone[0].id, grouped[0].id]).update(**columns)
        Attempt.objects.filter(id__in=[alone[1].id, grouped[1].id]).update(**attempt_columns)
        told = [
            execution.finish([finish_of(*hand, result=[1], http_status=204, response_excerpt="ok"), *also])
            for hand, also in ((alone, []), (grouped, [finish_of(*other)]))
        ]
        assert told[0].get(alone[0].id) == told[1].get(grouped[0].id)
        assert written(*alone) == written(*grouped)

    def test_retries_after_the_delay_by_the_databases_clock(self) -> None:
        trigger, attempt = make_running()
        before = factories.now()
        execution.finish([finish_of(trigger, attempt, "retrying", delay=timedelta(seconds=90))])
        stored = row(trigger)
        assert stored["due_at"] - before >= timedelta(seconds=90)
        assert (stored["finished_at"], stored["reason"]) == (None, "")

    def test_sends_a_retry_on_as_the_job_is_now(self) -> None:
        trigger, attempt = make_running()
        ended, end = make_running()
        for job_id in (trigger.job_id, ended.job_id):
            Job.objects.filter(id=job_id).update(job_type="webhook", priority=0, version=2)
        execution.finish([finish_of(trigger, attempt, "retrying"), finish_of(ended, end)])
        assert (row(trigger)["job_type"], row(trigger)["priority"]) == ("webhook", 0)
        assert (row(ended)["job_type"], row(ended)["priority"]) == ("noop", ended.priority)

    @pytest.mark.parametrize("result", [None, False, 0, "", [], {"a": None}, [1.5, "ü"]])
    def test_stores_any_json_result(self, result: object) -> None:
        trigger, attempt = make_running()
        execution.finish([finish_of(trigger, attempt, result=result)])
        assert row(trigger)["result"] == result
        with connection.cursor() as cursor:
            cursor.execute("SELECT result IS NULL FROM jobs_trigger WHERE id = %s", [trigger.id])
            assert cursor.fetchone() == (result is None,)

    def test_keeps_a_late_outcome_as_a_stale_attempt_and_changes_nothing_else(self) -> None:
        trigger, attempt = make_running()
        Trigger = type(trigger)
        Trigger.objects.filter(id=trigger.id).update(fence=2, attempt_count=2)
        newer = factories.make_attempt(Trigger.objects.get(id=trigger.id))
        before = row(trigger)
        assert execution.finish([finish_of(trigger, attempt, error_message="too late")]) == {}
        assert row(trigger) == before
        attempt.refresh_from_db()
        newer.refresh_from_db()
        assert (attempt.state, attempt.error_message, newer.state) == ("stale", "too late", "started")

    def test_repeated_after_an_uncertain_commit_leaves_the_first_outcome(self) -> None:
        trigger, attempt = make_running()
        execution.finish([finish_of(trigger, attempt, result=1)])
        before = row(trigger)
        assert execution.finish([finish_of(trigger, attempt, result=1)]) == {}
        assert row(trigger) == before
        assert [a.state for a in attempts(trigger)] == ["succeeded"]

    def test_lets_a_wish_to_cancel_beat_a_wish_to_retry(self) -> None:
        trigger, attempt = make_running()
        assert lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
        states = execution.finish([finish_of(trigger, attempt, "retrying", delay=timedelta(seconds=5))])
        assert states == {trigger.id: TriggerState.CANCELLED}
        assert state_of(trigger) == ("cancelled", "requested")
        assert row(trigger)["finished_at"] is not None

    @pytest.mark.parametrize(("state", "reason"), [("succeeded", ""), ("dead", "exhausted")])
    def test_keeps_an_end_that_was_reached_before_the_cancel_was_heard(self, state: str, reason: str) -> None:
        trigger, attempt = make_running(cancel_requested=True)
        execution.finish([finish_of(trigger, attempt, state)])
        assert state_of(trigger) == (state, reason)

    def test_judges_each_outcome_of_a_mixed_group_by_itself(self) -> None:
        (ours, ours_attempt), (lost, lost_attempt) = make_running(), make_running()
        type(lost).objects.filter(id=lost.id).update(fence=9)
        states = execution.finish([finish_of(lost, lost_attempt), finish_of(ours, ours_attempt)])
        assert states == {ours.id: TriggerState.SUCCEEDED}
        assert attempts(lost)[0].state == "stale"

    def test_takes_an_empty_group(self) -> None:
        assert execution.finish([]) == {}


class TestRenew:
    def test_prolongs_what_is_ours_and_leaves_out_the_rest(self) -> None:
        ours, moved_on = make_trigger(state="running"), make_trigger(state="running", fence=2)
        ended, queued = make_trigger(state="succeeded"), make_trigger(state="queued")
        moved_on.fence = 1
        before = factories.now()
        answer = execution.renew(
            tokens=[claim_token(trigger) for trigger in (ended, ours, moved_on, queued)],
            lease=timedelta(minutes=5),
        )
        assert answer == {ours.id: False}
        assert row(ours)["lease_expires_at"] - before >= timedelta(minutes=5)

    def test_revives_an_expired_lease_nobody_has_reaped(self) -> None:
        trigger = make_trigger(state="running", lease_expires_at=factories.now() - factories.MINUTE)
        assert execution.renew(tokens=[claim_token(trigger)], lease=factories.LEASE) == {trigger.id: False}

    def test_carries_the_wish_to_cancel(self) -> None:
        trigger = make_trigger(state="running")
        lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
        assert execution.renew(tokens=[claim_token(trigger)], lease=factories.LEASE) == {trigger.id: True}


class TestNoteProgress:
    def test_keeps_progress_and_checkpoint_apart(self) -> None:
        trigger = make_trigger(state="running")
        assert execution.note_progress(token=claim_token(trigger), progress={"fraction": 0.5})
        assert execution.note_progress(token=claim_token(trigger), checkpoint={"page": 2})
        stored = row(trigger)
        assert (stored["progress"], stored["checkpoint"]) == ({"fraction": 0.5}, {"page": 2})

    def test_changes_nothing_under_a_spent_fence(self) -> None:
        trigger = make_trigger(state="running", fence=2)
        before = row(trigger)
        assert not execution.note_progress(token=ClaimToken(trigger.id, 1), checkpoint={"page": 2})
        assert row(trigger) == before


class TestPauseGone:
    def test_pauses_active_jobs_with_the_reason(self) -> None:
        active, cancelled = make_job(), make_job(status="cancelled")
        execution.pause_gone([make_trigger(job, "dead").id for job in (active, cancelled)])
        active.refresh_from_db()
        assert (active.status, "410" in active.status_reason) == ("paused", True)
        assert Job.objects.get(id=cancelled.id).status == "cancelled"

    @pytest.mark.parametrize(
        "columns", [{"job_version": 1}, {"payload": {}}], ids=["edited since", "run now"]
    )
    def test_leaves_a_job_whose_own_target_was_not_asked(self, columns: dict[str, Any]) -> None:
        job = make_job(version=2)
        execution.pause_gone([make_trigger(job, "dead", **columns).id])
        assert Job.objects.get(id=job.id).status == "active"

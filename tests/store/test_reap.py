"""Reap: triggers come back from workers and messages that are gone, and late reports no longer count."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.core.policies import claim_deadline
from jobs.core.states import AttemptState, TriggerState
from jobs.engine import reaper
from jobs.models import Attempt, Job, Trigger
from jobs.store import execution, lifecycle
from jobs.store import reap as reap_store
from jobs.store.reap import Recovery, Release
from tests import factories
from tests.factories import (
    ANYONE,
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
DEADLINE = timedelta(seconds=30)


def make_expired(
    *,
    policy: dict[str, Any] | None = None,
    delivery: str = "at_least_once",
    claimed_with: int = 0,
    **columns: Any,
) -> Trigger:
    job = make_job(retry_policy=policy or {}, delivery=delivery)
    trigger, attempt = make_running(job, lease_expires_at=factories.now() - factories.SECOND, **columns)
    Attempt.objects.filter(id=attempt.id).update(claimed_with=claimed_with)
    return trigger


def reap() -> int:
    running = reaper.reap_leases(leadership=ANYONE, limit=100)
    return running + reaper.reap_messages(leadership=ANYONE, deadline=DEADLINE, limit=100)


class TestReapRunning:
    def test_leaves_a_valid_lease_alone(self) -> None:
        trigger, _ = make_running()
        before = row(trigger)
        assert reap() == 0
        assert row(trigger) == before

    def test_sends_a_lost_trigger_to_its_next_attempt_under_a_new_fence(self) -> None:
        trigger = make_expired()
        assert reap() == 1
        stored = row(trigger)
        assert (stored["state"], stored["fence"], stored["crash_count"]) == ("retrying", 2, 1)
        assert stored["lease_expires_at"] is None
        [attempt] = attempts(trigger)
        assert (attempt.state, attempt.error_code) == ("lost", "lease_expired")
        assert attempt.finished_at is not None

    @pytest.mark.parametrize("by", ["reap", "give_up"])
    def test_sends_what_is_tried_again_on_as_the_job_is_now(self, by: str) -> None:
        trigger = make_expired()
        Job.objects.filter(id=trigger.job_id).update(job_type="webhook", priority=0, version=2)
        if by == "reap":
            reap()
        else:
            recovery = Recovery(claim_token(trigger), TriggerState.RETRYING, "", factories.SECOND)
            reap_store.give_up([Release(recovery, False, AttemptState.FAILED, "", "")])
        stored = row(trigger)
        assert (stored["state"], stored["job_type"], stored["priority"]) == ("retrying", "webhook", 0)

    def test_buries_what_has_used_up_its_budget(self) -> None:
        trigger = make_expired(policy={"max_attempts": 2}, attempt_count=2)
        reap()
        assert state_of(trigger) == ("dead", "exhausted")

    def test_counts_the_budget_from_the_replay(self) -> None:
        trigger = make_expired(policy={"max_attempts": 2}, attempt_count=3, budget_start=2)
        reap()
        assert state_of(trigger) == ("retrying", "")

    def test_buries_the_third_crash_as_poison(self) -> None:
        trigger = make_expired(crash_count=2)
        reap()
        assert state_of(trigger) == ("dead", "poison")

    def test_charges_nothing_to_one_whose_worker_turns_out_to_live(self) -> None:
        trigger = make_expired(crash_count=1, policy={"max_attempts": 3})
        reap()
        assert (row(trigger)["crash_count"], row(trigger)["budget_start"]) == (2, 0)
        for _ in range(2):
            reap_store.absolve([claim_token(trigger)])
        assert (row(trigger)["crash_count"], row(trigger)["budget_start"]) == (1, 1)
        assert attempts(trigger)[0].error_code == "lease_lapsed"

    def test_charges_nothing_to_one_whose_worker_was_told_to_stop(self) -> None:
        trigger = make_expired(crash_count=2, policy={"max_attempts": 1})
        execution.note_stopping([claim_token(trigger)])
        reap()
        stored, [attempt] = row(trigger), attempts(trigger)
        assert (stored["state"], stored["crash_count"], stored["budget_start"]) == ("retrying", 2, 1)
        assert (attempt.state, attempt.error_code) == ("lost", "worker_stopped")
        assert "not charged" in attempt.error_message

    def test_is_not_taken_back_from_who_was_not_charged(self) -> None:
        trigger = make_expired(crash_count=1, claimed_with=2)
        reap()
        reap_store.absolve([claim_token(trigger)])
        assert (row(trigger)["crash_count"], row(trigger)["budget_start"]) == (1, 1)

    def test_charges_nothing_to_one_of_a_batch_but_lets_it_travel_alone(self) -> None:
        trigger = make_expired(policy={"max_attempts": 1}, crash_count=2, claimed_with=99)
        assert reap() == 1
        stored = row(trigger)
        assert (stored["state"], stored["crash_count"], stored["budget_start"]) == ("retrying", 2, 1)
        assert stored["suspect"]
        assert "99 more in hand" in attempts(trigger)[0].error_message

    def test_judges_by_the_attempt_of_the_present_fence(self) -> None:
        trigger = make_expired(attempt_count=2, fence=3)
        factories.make_attempt(trigger, "lost", number=1, fence=2, claimed_with=5)
        reap()
        assert (row(trigger)["crash_count"], row(trigger)["budget_start"]) == (1, 0)

    def test_buries_one_of_a_batch_that_may_be_started_once_only(self) -> None:
        trigger = make_expired(delivery="at_most_once", claimed_with=3)
        reap()
        assert state_of(trigger) == ("dead", "lost")

    def test_is_not_stopped_by_a_policy_that_cannot_be_read(self) -> None:
        broken, other = make_expired(policy={"no": "policy"}), make_expired()
        assert reap() == 2
        assert factories.states([broken, other]) == ["retrying", "retrying"]

    def test_never_starts_an_at_most_once_trigger_again(self) -> None:
        trigger = make_expired(delivery="at_most_once")
        reap()
        assert state_of(trigger) == ("dead", "lost")

    def test_cancels_what_was_asked_to_stop(self) -> None:
        trigger = make_expired()
        lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
        reap()
        assert state_of(trigger) == ("cancelled", "requested")

    def test_lets_a_wish_to_cancel_that_came_after_the_recovery_was_decided_beat_the_retry(self) -> None:
        trigger = make_expired()
        recovery = Recovery(claim_token(trigger), TriggerState.RETRYING, "", timedelta())
        lifecycle.cancel_jobs(job_ids=[trigger.job_id])
        reap_store.reap_running([recovery], leadership=ANYONE)
        assert state_of(trigger) == ("cancelled", "job_cancelled")
        assert row(trigger)["finished_at"] is not None

    def test_leaves_a_trigger_that_was_renewed_after_the_recovery_was_decided(self) -> None:
        trigger = make_expired()
        recovery = Recovery(claim_token(trigger), TriggerState.DEAD, "poison", timedelta())
        execution.renew(tokens=[claim_token(trigger)], lease=factories.LEASE)
        assert reap_store.reap_running([recovery], leadership=ANYONE) == []
        assert state_of(trigger) == ("running", "")

    def test_makes_the_late_finish_stale(self) -> None:
        trigger = make_expired()
        [attempt] = attempts(trigger)
        reap()
        before = row(trigger)
        assert execution.finish([finish_of(trigger, attempt, result="late")]) == {}
        assert row(trigger) == before
        assert attempts(trigger)[0].state == "stale"

    def test_takes_the_longest_expired_first_up_to_the_limit(self) -> None:
        newer, older = make_expired(), make_expired()
        Trigger.objects.filter(id=older.id).update(lease_expires_at=factories.now() - factories.HOUR)
        assert [found.id for found in reap_store.expired_leases(limit=1)] == [older.id]
        assert [found.id for found in reap_store.expired_leases(limit=9)] == [older.id, newer.id]

    def test_obeys_the_clock_that_was_set(self, clock: Any) -> None:
        trigger, _ = make_running()
        clock(factories.MINUTE)
        assert reap() == 1
        assert state_of(trigger) == ("retrying", "")


class TestReapQueued:
    def test_returns_what_nobody_claimed_by_the_deadline(self, clock: Any) -> None:
        trigger = make_trigger(state="queued")
        clock(DEADLINE - factories.SECOND)
        assert reap() == 0
        clock(DEADLINE + factories.SECOND)
        assert reap() == 1
        stored = row(trigger)
        assert (stored["state"], stored["queued_at"], stored["fence"]) == ("pending", None, 1)

    @pytest.mark.parametrize("attempt_count", [0, 2])
    @pytest.mark.parametrize("unclaimed", [0, 1, 2, 3, 4, 7, 8, 9, 40])
    def test_waits_as_long_as_the_policy_says(self, clock: Any, unclaimed: int, attempt_count: int) -> None:
        fence = attempt_count + unclaimed
        trigger = make_trigger(state="queued", fence=fence, attempt_count=attempt_count)
        deadline = claim_deadline(DEADLINE, fence=fence, attempt_count=attempt_count)
        clock(deadline - factories.SECOND)
        assert reap() == 0
        clock(deadline + factories.SECOND)
        assert reap() == 1
        assert state_of(trigger) == ("pending", "")

    def test_is_bounded_and_takes_the_oldest(self, clock: Any) -> None:
        job = make_job()
        triggers = [
            make_trigger(job, "queued", queued_at=factories.now() - n * factories.SECOND) for n in range(3)
        ]
        clock(factories.HOUR)
        assert [
            found.id for found in reap_store.reap_queued(leadership=ANYONE, deadline=DEADLINE, limit=1)
        ] == [triggers[2].id]
        assert factories.states(triggers) == ["queued", "queued", "pending"]

"""Workers against each other, against people and against the reaper (DESIGN §2, promises 3, 4 and 8)."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction

from jobs.core.states import TriggerState
from jobs.models import Job, Trigger
from jobs.store import execution, lifecycle, reap
from jobs.store.reap import Recovery
from tests import factories
from tests.factories import (
    ANYONE,
    HOUR,
    attempts,
    claim,
    claim_token,
    dispatch,
    finish_of,
    make_job,
    make_running,
    make_trigger,
    row,
    state_of,
    states,
)
from tests.races.conftest import Rival, at_once

pytestmark = pytest.mark.django_db(transaction=True)


def pause(job_id: UUID, tenant_id: int) -> None:
    """The statements of the action, one by one; the caller's transaction joins them."""
    lifecycle.lock_tenant(tenant_id)
    Job.objects.filter(id=job_id).update(status="paused")
    lifecycle.hand_back(job_ids=[job_id])
    lifecycle.hold(job_ids=[job_id], held=True)


class TestTwoClaimers:
    def test_of_one_message_exactly_one_wins(self) -> None:
        job = make_job()
        triggers = [make_trigger(job, "queued") for _ in range(20)]
        won = at_once(*[lambda: claim(*triggers)] * 3)
        assert sorted(item.id for rows in won for item in rows) == sorted(trigger.id for trigger in triggers)
        assert all(len(attempts(trigger)) == 1 and row(trigger)["attempt_count"] == 1 for trigger in triggers)

    def test_the_loser_that_waited_hands_nothing_back(self, rival: Rival) -> None:
        trigger = make_trigger(state="queued")
        with transaction.atomic():
            assert len(claim(trigger)) == 1
            answer = rival.start(lambda: claim(trigger))
            rival.wait_until_blocked()
        assert answer() == []
        assert state_of(trigger) == ("running", "")


class TestClaimAgainstPause:
    def test_nothing_starts_after_the_pause_returned(self) -> None:
        jobs = [make_job() for _ in range(8)]
        triggers = {job.id: [make_trigger(job, "queued") for _ in range(5)] for job in jobs}

        def pause_all() -> dict[UUID, int]:
            started = {}
            for job in jobs:
                with transaction.atomic():
                    pause(job.id, job.tenant_id)
                started[job.id] = Trigger.objects.filter(job=job, state="running").count()
            return started

        def claim_all() -> None:
            for job in jobs:
                for trigger in triggers[job.id]:
                    claim(trigger)

        started, _ = at_once(pause_all, claim_all)
        for job in jobs:
            assert Trigger.objects.filter(job=job, state="running").count() == started[job.id]
            assert not Trigger.objects.filter(job=job, state="queued").exists()

    def test_a_claim_that_waited_for_the_pause_starts_nothing(self, rival: Rival) -> None:
        trigger = make_trigger(state="queued")
        with transaction.atomic():
            pause(trigger.job_id, trigger.tenant_id)
            answer = rival.start(lambda: claim(trigger))
            rival.wait_until_blocked()
        assert answer() == []
        assert (state_of(trigger), attempts(trigger)) == (("pending", ""), [])

    def test_dispatch_passes_over_a_tenant_while_its_job_is_being_paused(self, rival: Rival) -> None:
        trigger = make_trigger()
        with transaction.atomic():
            pause(trigger.job_id, trigger.tenant_id)
            assert rival.do(dispatch).queued == []
        assert rival.do(dispatch).queued == []
        assert state_of(trigger) == ("pending", "")


class TestCancelAgainstAWorker:
    def test_reaches_a_trigger_that_becomes_retrying_meanwhile(self, rival: Rival) -> None:
        trigger, attempt = make_running()
        with transaction.atomic():
            execution.finish([finish_of(trigger, attempt, "retrying")])
            answer = rival.start(lambda: lifecycle.cancel_jobs(job_ids=[trigger.job_id]))
            rival.wait_until_blocked()
        assert answer() == 1
        assert state_of(trigger) == ("cancelled", "job_cancelled")

    def test_reaches_a_trigger_that_is_claimed_meanwhile(self, rival: Rival) -> None:
        trigger = make_trigger(state="queued")
        with transaction.atomic():
            claim(trigger)
            answer = rival.start(lambda: lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id))
            rival.wait_until_blocked()
        assert answer() is True
        assert row(trigger)["cancel_requested"] is True

    def test_is_heard_by_a_retry_that_waited(self, rival: Rival) -> None:
        trigger, attempt = make_running()
        with transaction.atomic():
            lifecycle.cancel_jobs(job_ids=[trigger.job_id])
            answer = rival.start(lambda: execution.finish([finish_of(trigger, attempt, "retrying")]))
            rival.wait_until_blocked()
        assert answer() == {trigger.id: TriggerState.CANCELLED}


class TestFinishAgainstReap:
    def test_either_the_outcome_or_the_reap_counts(self) -> None:
        hands = [make_running(lease_expires_at=factories.now() - HOUR) for _ in range(30)]
        recoveries = [
            Recovery(claim_token(trigger), TriggerState.RETRYING, "", timedelta(hours=1))
            for trigger, _ in hands
        ]

        def finish_each() -> set[UUID]:
            return {key for hand in hands for key in execution.finish([finish_of(*hand)])}

        def reap_each() -> set[UUID]:
            rows = [
                item
                for recovery in reversed(recoveries)
                for item in reap.reap_running([recovery], leadership=ANYONE)
            ]
            return {item.id for item in rows}

        finished, reaped = at_once(finish_each, reap_each)
        assert finished | reaped == {trigger.id for trigger, _ in hands}
        assert finished & reaped == set()
        for trigger, _ in hands:
            expected = ("succeeded", "succeeded") if trigger.id in finished else ("retrying", "stale")
            assert (state_of(trigger)[0], attempts(trigger)[0].state) == expected

    def test_a_finish_that_waited_for_the_reap_is_stale(self, rival: Rival) -> None:
        trigger, attempt = make_running(lease_expires_at=factories.now() - HOUR)
        with transaction.atomic():
            recovery = Recovery(claim_token(trigger), TriggerState.RETRYING, "", timedelta())
            reap.reap_running([recovery], leadership=ANYONE)
            answer = rival.start(lambda: execution.finish([finish_of(trigger, attempt)]))
            rival.wait_until_blocked()
        assert answer() == {}
        assert (state_of(trigger)[0], attempts(trigger)[0].state) == ("retrying", "stale")


class TestTwoReapers:
    def test_reap_each_trigger_once(self) -> None:
        hands = [make_running(lease_expires_at=factories.now() - HOUR) for _ in range(20)]
        recoveries = [Recovery(claim_token(t), TriggerState.RETRYING, "", timedelta()) for t, _ in hands]
        at_once(*[lambda: [reap.reap_running([recovery], leadership=ANYONE) for recovery in recoveries]] * 2)
        assert {(row(trigger)["fence"], row(trigger)["crash_count"]) for trigger, _ in hands} == {(2, 1)}

    def test_return_each_message_once(self) -> None:
        job = make_job()
        triggers = [make_trigger(job, "queued", queued_at=factories.now() - HOUR) for _ in range(20)]
        found = at_once(
            *[lambda: reap.reap_queued(leadership=ANYONE, deadline=factories.SECOND, limit=15)] * 3
        )
        assert sorted(item.id for rows in found for item in rows) == sorted(
            trigger.id for trigger in triggers
        )
        assert set(states(triggers)) == {"pending"}


class TestTwoReplays:
    def test_send_a_trigger_through_once(self) -> None:
        triggers = [make_trigger(make_job(), "dead") for _ in range(10)]

        def replay() -> int:
            return sum(
                len(lifecycle.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id))
                for trigger in triggers
            )

        assert sum(at_once(replay, replay, replay)) == 10
        assert {row(trigger)["replay_count"] for trigger in triggers} == {1}


class TestTwoFinishes:
    def test_of_one_attempt_leave_its_first_outcome(self) -> None:
        trigger, attempt = make_running()
        answers = at_once(*[lambda: execution.finish([finish_of(trigger, attempt)])] * 3)
        assert sorted(map(len, answers)) == [0, 0, 1]
        assert attempts(trigger)[0].state == "succeeded"

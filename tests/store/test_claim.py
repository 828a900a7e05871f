"""Claim: one statement gives the triggers of a batch of messages to a worker, or leaves them alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job
from jobs.models.fields import new_ids
from jobs.store import execution
from jobs.store.execution import ClaimToken
from tenants.models import Tenant
from tests import factories
from tests.factories import attempts, claim, make_job, make_tenant, make_trigger, row, state_of

pytestmark = pytest.mark.django_db


class TestClaim:
    def test_gives_a_handler_everything_it_needs(self) -> None:
        job = make_job(payload={"a": [1, None]}, retry_policy={"max_attempts": 2})
        trigger = make_trigger(job, "queued", checkpoint={"page": 3})
        [claimed] = claim(trigger)
        assert (claimed.id, claimed.fence, claimed.attempt_count) == (trigger.id, 1, 1)
        assert (claimed.payload, claimed.retry_policy) == ({"a": [1, None]}, {"max_attempts": 2})
        assert (claimed.checkpoint, claimed.tenant, claimed.job_name) == (
            {"page": 3},
            job.tenant.slug,
            job.name,
        )
        assert (claimed.timeout, claimed.idempotency_key) == (job.timeout, trigger.idempotency_key)
        assert timedelta() <= claimed.elapsed < timedelta(seconds=5)

    def test_starts_an_attempt_and_a_lease(self) -> None:
        trigger = make_trigger(state="queued")
        before = factories.now()
        [claimed] = claim(trigger, lease=timedelta(seconds=30), worker="w9")
        stored = row(trigger)
        assert (stored["state"], stored["worker"], stored["attempt_count"]) == ("running", "w9", 1)
        assert stored["lease_expires_at"] - before >= timedelta(seconds=30)
        [attempt] = attempts(trigger)
        assert (attempt.id, attempt.state, attempt.number, attempt.fence) == (
            claimed.attempt_id,
            "started",
            1,
            1,
        )
        assert (attempt.worker, attempt.celery_task_id) == ("w9", "celery-1")
        assert attempt.started_at == claimed.attempt_started_at

    def test_takes_again_what_it_took_when_its_answer_was_lost(self) -> None:
        triggers = [make_trigger(state="queued") for _ in range(3)]
        stale, late = make_trigger(state="queued", fence=2), make_trigger(state="queued")
        tokens = [*map(factories.claim_token, triggers), ClaimToken(stale.id, 1), factories.claim_token(late)]
        ids = new_ids(len(tokens))

        def repeatable() -> execution.Claimed:
            return execution.claim(
                tokens=tokens,
                job_types=["noop"],
                worker="w1",
                celery_task_id="",
                lease=factories.HOUR,
                attempt_ids=ids,
            )

        first = {claimed.id: claimed for claimed in repeatable()}
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_trigger SET lease_expires_at = carillon_clock()")
            # It was reaped and dispatched again meanwhile.
            cursor.execute("UPDATE jobs_trigger SET state = 'queued', fence = 3 WHERE id = %s", [late.id])
        again = repeatable()
        assert {claimed.id for claimed in again} == {trigger.id for trigger in triggers}
        for claimed in again:
            known = first[claimed.id]._asdict()
            assert claimed._asdict() == known | {"elapsed": claimed.elapsed}
        assert again.dropped == 2
        assert all(len(attempts(trigger)) == 1 for trigger in triggers)
        assert all(row(trigger)["lease_expires_at"] > factories.now() for trigger in triggers)
        assert state_of(late) == ("queued", "")

    def test_takes_nothing_that_another_runs_under_the_same_fence(self) -> None:
        trigger = make_trigger(state="queued")
        claim(trigger)
        rival = execution.claim(
            tokens=[factories.claim_token(trigger)],
            job_types=["noop"],
            worker="w2",
            celery_task_id="",
            lease=factories.HOUR,
            attempt_ids=new_ids(1),
        )
        assert (list(rival), rival.dropped) == ([], 1)

    def test_numbers_attempts_over_retries_and_keeps_the_first_start(self) -> None:
        trigger = make_trigger(
            state="queued", fence=4, attempt_count=3, started_at=factories.now() - factories.HOUR
        )
        [claimed] = claim(trigger)
        assert claimed.attempt_count == 4
        assert attempts(trigger)[0].number == 4
        assert claimed.elapsed >= factories.HOUR

    def test_drops_a_trigger_whose_fence_has_moved_on(self) -> None:
        trigger = make_trigger(state="queued", fence=5)
        before = row(trigger)
        for fence in (4, 6):
            assert (
                execution.claim(
                    tokens=[ClaimToken(trigger.id, fence)],
                    job_types=["noop"],
                    worker="w",
                    celery_task_id="",
                    lease=factories.LEASE,
                )
                == []
            )
        assert row(trigger) == before
        assert attempts(trigger) == []

    def test_claims_nothing_the_second_time(self) -> None:
        trigger = make_trigger(state="queued")
        assert len(claim(trigger)) == 1
        before = row(trigger)
        assert claim(trigger) == []
        assert row(trigger) == before
        assert len(attempts(trigger)) == 1

    def test_claims_a_trigger_named_twice_in_a_batch_once(self) -> None:
        trigger = make_trigger(state="queued")
        assert len(claim(trigger, trigger)) == 1
        assert row(trigger)["attempt_count"] == 1
        assert len(attempts(trigger)) == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"status": "paused"},
            {"status": "cancelled"},
            {"version": 2},
            {"deleted_at": factories.utc(2026, 1, 1)},
        ],
        ids=["paused", "cancelled", "edited", "deleted"],
    )
    def test_hands_back_a_trigger_whose_job_may_not_run_it(self, change: dict[str, Any]) -> None:
        trigger = make_trigger(state="queued")
        Job.objects.filter(id=trigger.job_id).update(**change)
        assert claim(trigger) == []
        stored = row(trigger)
        assert (stored["state"], stored["queued_at"], stored["attempt_count"]) == ("pending", None, 0)
        assert attempts(trigger) == []

    @pytest.mark.parametrize("status", ["suspended", "frozen"])
    def test_hands_back_a_trigger_of_a_tenant_that_may_not_run(self, status: str) -> None:
        trigger = make_trigger(state="queued")
        Tenant.objects.filter(id=trigger.tenant_id).update(status=status)
        assert claim(trigger) == []
        assert state_of(trigger) == ("pending", "")

    def test_runs_the_last_triggers_of_a_completed_job(self) -> None:
        trigger = make_trigger(make_job(status="completed"), "queued")
        assert len(claim(trigger)) == 1

    def test_judges_each_trigger_of_a_mixed_batch_by_itself(self) -> None:
        tenant = make_tenant()
        good = make_trigger(make_job(tenant), "queued")
        paused = make_trigger(make_job(tenant, status="paused"), "queued")
        ended = make_trigger(make_job(tenant), "succeeded")
        stale = make_trigger(make_job(tenant), "queued", fence=3)
        stale.fence = 2
        gone = make_trigger(make_job(tenant), "queued")
        gone.delete()
        gone.id = factories.new_id()
        rows = claim(paused, gone, good, stale, ended)
        assert [claimed.id for claimed in rows] == [good.id]
        assert factories.states([good, paused, ended, stale]) == ["running", "pending", "succeeded", "queued"]

    def test_takes_an_empty_batch(self) -> None:
        assert claim() == []


class TestHandBack:
    def test_spends_the_fence_with_the_next_dispatch(self) -> None:
        trigger = make_trigger(state="queued")
        assert execution.hand_back([factories.claim_token(trigger)]) == 1
        [queued] = factories.dispatch().queued
        assert (queued.id, queued.fence) == (trigger.id, 2)
        assert claim(trigger) == []

    def test_leaves_a_running_trigger_and_a_newer_fence_alone(self) -> None:
        running, newer = make_trigger(state="running"), make_trigger(state="queued", fence=2)
        newer.fence = 1
        assert execution.hand_back([factories.claim_token(running), factories.claim_token(newer)]) == 0
        assert factories.states([running, newer]) == ["running", "queued"]

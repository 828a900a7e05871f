"""The counts of activity agree exactly with the ledger, after firings that end in every way."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from jobs.actions import jobs as job_actions
from jobs.actions import triggers as trigger_actions
from jobs.activity import activity, own
from jobs.core.activity import DURATION_BUCKETS, LAG_BUCKETS
from jobs.engine import worker
from jobs.handlers import Context, Permanent
from jobs.models import ActivityTotal, Attempt, Job, SkippedRange, Trigger
from jobs.store import execution
from tests import factories
from tests.activity_records import on_record, record
from tests.engine.conftest import Beat, Broker, Perform
from tests.factories import HOUR, MINUTE, make_job, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
Register = Callable[..., str]


@pytest.fixture(autouse=True)
def counted_by_this_test() -> None:
    activity.forget()
    own.forget()


@pytest.fixture
def kinds_of_end(handler: Register) -> list[str]:
    """Job types whose handlers end in every possible way."""

    def ok(ctx: Context, payload: Any) -> None:
        pass

    def for_good(ctx: Context, payload: Any) -> None:
        raise Permanent("never")

    def at_first(ctx: Context, payload: Any) -> None:
        if ctx.attempt_number == 1:
            raise RuntimeError("not yet")

    def always(ctx: Context, payload: Any) -> None:
        raise RuntimeError("no")

    def twice(ctx: Context, payload: Any) -> None:
        with transaction.atomic():
            ctx.once("a")
            ctx.once("a")

    return [handler(function) for function in (ok, for_good, at_first, always, twice)]


def run_all(beat: Beat, broker: Broker) -> None:
    """Run until all that is left waits for a later time; retries are due at once."""
    while True:
        Trigger.objects.filter(state="retrying").update(due_at=factories.now())
        beat.step()
        if not broker.messages:
            return
        while broker.messages:
            message = broker.messages.pop(0)
            worker.perform(
                job_type=message.job_type, tokens=message.tokens, worker="w1", celery_task_id="celery-1"
            )


class TestCountsAndTheLedger:
    def test_agree_exactly_after_mixed_firings(
        self, beat: Beat, broker: Broker, perform: Perform, kinds_of_end: list[str]
    ) -> None:
        tenants = [make_tenant(), make_tenant(), make_tenant(status="frozen")]
        retry = {"max_attempts": 2}
        for tenant in tenants:
            for kind in kinds_of_end * 2:
                make_job(tenant, job_type=kind, retry_policy=retry, **factories.owing(9))
            make_job(tenant, **factories.owing(30) | {"misfire_policy": "skip"})
            long_ago = factories.now() - 40 * HOUR
            make_job(tenant, created_at=long_ago, next_fire_at=long_ago + MINUTE, misfire_policy="skip")
            make_job(tenant, **factories.owing(3) | {"overlap_policy": "skip", "max_concurrent": 1})
            collapsing = {"overlap_policy": "collapse", "max_concurrent": 1}
            make_job(tenant, **factories.owing(9) | collapsing)
        run_all(beat, broker)
        self._intervene(tenants[0], beat, broker)
        run_all(beat, broker)
        record(activity.take())
        assert self._agreed() > 300

    @staticmethod
    def _intervene(tenant: Any, beat: Beat, broker: Broker) -> None:
        """Acts of people and crashes: cancel, replay, run now, pause, edit, and the loss of a lease and a message."""
        dead = Trigger.objects.filter(tenant=tenant, state="dead").first()
        assert dead is not None
        trigger_actions.replay_trigger(tenant=tenant, trigger_id=dead.id)
        job = make_job(tenant, next_fire_at=factories.now() + 10 * factories.SECOND)
        beat.step()
        job_actions.pause_job(tenant=tenant, job_id=job.id)
        job_actions.cancel_job(tenant=tenant, job_id=job.id)
        other = make_job(tenant, next_fire_at=factories.now() + 10 * factories.SECOND)
        beat.step()
        every = {"type": "interval", "every_seconds": 120}
        job_actions.update_job(tenant=tenant, job_id=other.id, changes={"schedule": every})
        for _ in range(2):
            job_actions.run_job_now(tenant=tenant, job_id=other.id)
        beat.step()
        broker.messages.clear()
        lost_lease = factories.claim_token(Trigger.objects.filter(job=other, state="queued")[0])
        claimed = execution.claim(
            tokens=[lost_lease],
            job_types=["noop"],
            worker="w1",
            celery_task_id="celery-1",
            lease=factories.LEASE,
        )
        assert len(claimed) == 1
        Trigger.objects.filter(id=lost_lease.id).update(lease_expires_at=factories.now() - MINUTE)
        lost_messages = Trigger.objects.filter(state="queued").update(queued_at=factories.now() - HOUR)
        assert lost_messages > 0

    @staticmethod
    def _agreed() -> int:
        """Asserts that counts and ledger agree for each tenant and job type; returns how many triggers there are."""
        recorded = on_record()
        keys = {(t.tenant_id, t.job_type) for t in Trigger.objects.all()} | recorded.keys()
        for tenant_id, job_type in keys:
            counts = Counter(recorded[tenant_id, job_type])
            triggers = Trigger.objects.filter(tenant_id=tenant_id, job_type=job_type)
            attempts = list(Attempt.objects.filter(trigger_id__in=triggers.values("id")))
            ended = Counter(attempt.state for attempt in attempts)
            fates = Counter((t.state, t.reason) for t in triggers)
            expected = Counter(
                {f"skipped_{reason}": n for (state, reason), n in fates.items() if state == "skipped"}
            )
            expected += Counter({f"ended_{state}": n for state, n in ended.items()})
            for stretch in SkippedRange.objects.filter(tenant_id=tenant_id, job__job_type=job_type):
                expected[f"skipped_{stretch.reason}"] += stretch.count
            found = Counter(
                {kind: n for kind, n in counts.items() if kind.startswith(("ended_", "skipped_")) and n}
            )
            assert found == expected, job_type
            assert counts["created"] - counts["withdrawn"] == triggers.count()
            assert counts["started"] == len(attempts) == sum(counts[kind] for kind in LAG_BUCKETS)
            told = len(attempts) - ended["lost"] - ended["stale"]
            assert sum(counts[kind] for kind in DURATION_BUCKETS) == told
            assert counts["dispatched"] == counts["started"] + counts["handed_back"] + counts["messages_lost"]
            assert counts["cancelled"] == sum(n for (state, _), n in fates.items() if state == "cancelled")
            buried = sum(n for kind, n in counts.items() if kind.startswith("buried_"))
            # Only dead triggers were replayed.
            assert buried - counts["replayed"] == sum(n for (state, _), n in fates.items() if state == "dead")
        every = Counter[str]()
        for counts_of in recorded.values():
            every.update(counts_of)
        happened = {"retried", "replayed", "withdrawn", "cancelled", "messages_lost", "duplicates_prevented"}
        happened |= {
            "ended_lost",
            "buried_exhausted",
            "buried_permanent",
            "skipped_misfire",
            "skipped_frozen",
        }
        assert {kind for kind in happened if not every[kind]} == set()
        totals = Counter[str]()
        for counts_of in on_record(ActivityTotal).values():
            totals.update(counts_of)
        assert totals == every
        assert Job.objects.count() > 0
        return Trigger.objects.count()

"""Two dispatchers, two materializers, two beats: wasteful at most (DESIGN §2, promises 2, 7 and 11)."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction

from jobs.actions import jobs as jobs_actions
from jobs.engine.firing import materializer
from jobs.models import Job, Trigger
from jobs.store import jobs, lifecycle, partitions
from jobs.store.dispatch import Memory, queues
from tests import factories
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, dispatch, make_job, make_tenant, make_triggers
from tests.races.conftest import Rival, at_once

pytestmark = pytest.mark.django_db(transaction=True)


def in_flight(tenant_id: int) -> int:
    return Trigger.objects.filter(tenant_id=tenant_id, state__in=("queued", "running")).count()


class TestTwoDispatchers:
    def test_never_exceed_a_tenants_cap_nor_queue_a_trigger_twice(self) -> None:
        tenants = [make_tenant(max_in_flight=7) for _ in range(3)]
        for tenant in tenants:
            make_triggers(make_job(tenant), 20)

        def dispatch_often() -> list[tuple[object, int]]:
            found = []
            for _ in range(12):
                found += [(item.id, item.fence) for item in dispatch(limit=3).queued]
                assert all(in_flight(tenant.id) <= 7 for tenant in tenants)
            return found

        queued = [pair for found in at_once(*[dispatch_often] * 3) for pair in found]
        assert max(Counter(queued).values()) == 1
        assert {fence for _, fence in queued} == {1}
        assert [in_flight(tenant.id) for tenant in tenants] == [7, 7, 7]

    def test_take_turns_at_a_type_so_that_its_cap_holds(self, rival: Rival) -> None:
        dispatch(slow=5)  # the queues are known from here on
        make_triggers(make_job(make_tenant(), job_type="slow"), 4)
        with transaction.atomic():
            assert len(dispatch(types=[], slow=5).queued) == 4
            # The other dispatcher sees none of these yet, but is kept from the queue.
            rival.do(lambda: make_triggers(make_job(make_tenant(), job_type="slow"), 4))
            [free] = rival.do(lambda: make_triggers(make_job(make_tenant(), job_type="noop"), 1))
            assert [item.id for item in rival.do(lambda: dispatch(slow=5)).queued] == [free.id]
        assert len(rival.do(lambda: dispatch(slow=5)).queued) == 1

    def test_take_turns_at_a_queue_so_that_its_window_holds(self, rival: Rival) -> None:
        dispatch(window=5)
        make_triggers(make_job(make_tenant()), 4)
        with transaction.atomic():
            assert len(dispatch(window=5).queued) == 4
            rival.do(lambda: make_triggers(make_job(make_tenant()), 4))
            assert rival.do(lambda: dispatch(window=5)).blocked
        assert len(rival.do(lambda: dispatch(window=5)).queued) == 1

    def test_never_exceed_the_room_of_a_key(self) -> None:
        tenants = [make_tenant() for _ in range(4)]
        for tenant in tenants:
            for _ in range(3):
                make_triggers(make_job(tenant, concurrency_key="db", max_concurrent=2), 3)
        keyed = Trigger.objects.filter(concurrency_key="db", state__in=("queued", "running"))

        def dispatch_often() -> None:
            for _ in range(8):
                dispatch(limit=3)
                assert max(Counter(keyed.values_list("tenant_id", flat=True)).values(), default=0) <= 2

        at_once(*[dispatch_often] * 4)
        assert keyed.count() == 8

    def test_queue_a_run_beside_once_and_side_by_side_with_its_job(self) -> None:
        tenant = make_tenant(max_in_flight=5)
        job = make_job(tenant, overlap_policy="queue")
        make_triggers(job, 3)
        for _ in range(3):
            jobs_actions.run_job_now(tenant=tenant, job_id=job.id, ignore_overlap=True)

        def dispatch_often() -> list[object]:
            return [item.id for _ in range(6) for item in dispatch(limit=2).queued]

        queued = [found for each in at_once(*[dispatch_often] * 3) for found in each]
        assert len(queued) == len(set(queued)) == 4
        origins = Trigger.objects.filter(id__in=queued).values_list("origin", flat=True)
        assert Counter(origins) == {"schedule": 1, "run_beside": 3}

    def test_pass_over_each_others_tenants_without_waiting(self, rival: Rival) -> None:
        mine, other = make_tenant(), make_tenant()
        make_triggers(make_job(mine), 2)
        [free] = make_triggers(make_job(other), 1)
        with transaction.atomic():
            lifecycle.lock_tenant(mine.id)
            assert [item.id for item in rival.do(dispatch).queued] == [free.id]
            assert rival.do(dispatch).blocked
        assert len(rival.do(dispatch).queued) == 2

    def test_leave_alone_the_tenants_of_a_queue_that_the_other_has(self, rival: Rival) -> None:
        dispatch()  # the queue is known from here on
        make_triggers(make_job(make_tenant()), 1)
        with transaction.atomic():
            # This transaction has locked the queue and no tenant yet, as a dispatch has between its two locks.
            assert queues.lock(["noop"])
            rival.do(lambda: transaction.set_autocommit(False))
            assert rival.do(dispatch).blocked
            # The rival's transaction is still open, and yet does not block this dispatch.
            assert len(dispatch().queued) == 1
            rival.do(transaction.rollback)

    @pytest.mark.parametrize("policy", ["skip", "queue", "collapse", "replace"])
    def test_start_one_of_a_job_that_must_not_overlap(self, policy: str) -> None:
        job = make_job(overlap_policy=policy)
        make_triggers(job, 4)
        at_once(*[lambda: dispatch(limit=1)] * 3)
        assert in_flight(job.tenant_id) <= 1
        at_once(*[dispatch] * 3)
        assert in_flight(job.tenant_id) == 1


class TestLockedRows:
    """One dispatcher, with its memory, beside a session that holds a row."""

    def test_of_triggers_are_passed_over_and_looked_at_again(self, rival: Rival) -> None:
        memory = Memory()
        locked, free = make_triggers(make_job(), 2)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM jobs_trigger WHERE id = %s FOR UPDATE", [locked.id])
            assert [item.id for item in rival.do(lambda: dispatch(memory=memory)).queued] == [free.id]
            result = rival.do(lambda: dispatch(memory=memory))
            assert (result.queued, result.blocked) == ([], True)
        assert [item.id for item in rival.do(lambda: dispatch(memory=memory)).queued] == [locked.id]

    def test_of_tenants_are_passed_over_and_looked_at_again(self, rival: Rival) -> None:
        memory = Memory()
        [held], [free] = (make_triggers(make_job(make_tenant()), 1) for _ in range(2))
        with transaction.atomic():
            lifecycle.lock_tenant(held.tenant_id)
            assert [item.id for item in rival.do(lambda: dispatch(memory=memory)).queued] == [free.id]
        assert [item.id for item in rival.do(lambda: dispatch(memory=memory)).queued] == [held.id]


class TestRunNow:
    def test_neither_waits_for_dispatch_nor_keeps_it_from_the_tenant(self, rival: Rival) -> None:
        job = make_job()
        other = make_job(job.tenant)
        make_triggers(other, 1)
        with transaction.atomic():
            first = jobs_actions.run_job_now(tenant=job.tenant, job_id=job.id)
            assert len(rival.do(dispatch).queued) == 1
        with transaction.atomic():
            lifecycle.lock_tenant(job.tenant_id)
            rival.do(lambda: jobs_actions.run_job_now(tenant=job.tenant, job_id=job.id))
        assert {item.id for item in dispatch().queued} >= {first.id}

    def test_that_a_cancel_overtakes_ends_with_the_job(self, rival: Rival) -> None:
        job = make_job()
        with transaction.atomic():
            trigger = jobs_actions.run_job_now(tenant=job.tenant, job_id=job.id)
            rival.do(lambda: jobs_actions.cancel_job(tenant=job.tenant, job_id=job.id))
        assert dispatch().ended == {trigger.id: "job_cancelled"}
        assert factories.state_of(trigger) == ("cancelled", "job_cancelled")


class TestTwoMaterializers:
    def test_double_no_firing_and_leave_none_out(self) -> None:
        moment = factories.now().replace(microsecond=0)
        tenant = make_tenant()
        for _ in range(20):
            make_job(
                tenant, interval=SECOND, created_at=moment - MINUTE, next_fire_at=moment - MINUTE + SECOND
            )

        def materialize() -> None:
            for _ in range(6):
                materializer.materialize(leadership=ANYONE, look_ahead=timedelta(seconds=1), limit=7)

        at_once(materialize, materialize)
        for job in Job.objects.all():
            instants = sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))
            assert len(instants) >= 60
            assert instants == [moment - MINUTE + SECOND * k for k in range(1, len(instants) + 1)]
            assert job.next_fire_at == instants[-1] + SECOND

    def test_take_different_jobs_without_waiting(self, rival: Rival) -> None:
        first = make_job(next_fire_at=factories.now() - HOUR)
        second = make_job(next_fire_at=factories.now())
        with transaction.atomic():
            mine = [row.id for row in jobs.take_due(leadership=ANYONE, look_ahead=MINUTE, limit=1)]
            assert (
                rival.do(lambda: materializer.materialize(leadership=ANYONE, look_ahead=MINUTE, limit=10))
                == 1
            )
        assert mine == [first.id]
        assert set(Trigger.objects.values_list("job_id", flat=True)) == {second.id}

    def test_insert_one_trigger_when_both_hold_the_same_firing(self) -> None:
        job = make_job()
        moment = factories.now()
        firing = jobs.Firing(
            job_id=job.id,
            tenant_id=job.tenant_id,
            job_type="noop",
            job_version=1,
            priority=2,
            scheduled_for=moment,
            due_at=moment,
        )
        created = at_once(*[lambda: jobs.materialize([firing])] * 3)
        assert sorted(map(len, created)) == [0, 0, 1]


class TestTwoHousekeepers:
    def test_create_each_partition_once(self) -> None:
        def ensure() -> list[str]:
            factories.set_clock(timedelta(weeks=30))
            return partitions.ensure(partitions.ATTEMPTS)

        created = [name for names in at_once(ensure, ensure) for name in names]
        assert len(created) == len(set(created)) == 5

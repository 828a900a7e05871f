"""The gates of dispatch besides a tenant's and a type's cap: keys, rates, targets, frozen tenants, windows.

The rules: DESIGN §8.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from jobs.limits import Admission
from jobs.models import Queue, Trigger
from jobs.store import dispatch as dispatch_store
from tenants.models import Tenant
from tests import factories
from tests.factories import (
    MINUTE,
    SECOND,
    dispatch,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
    state_of,
    states,
)

pytestmark = pytest.mark.django_db


def end(*triggers: Trigger) -> None:
    Trigger.objects.filter(id__in=[trigger.id for trigger in triggers]).update(state="succeeded")


def queued_ids(**options: Any) -> list[Any]:
    return [item.id for item in dispatch(**options).queued]


class TestConcurrencyKeys:
    def test_bound_what_is_in_flight_over_all_jobs_of_the_key(self) -> None:
        tenant = make_tenant()
        jobs = [make_job(tenant, concurrency_key="db", max_concurrent=2) for _ in range(4)]
        due_at = factories.now() - MINUTE
        first, second, third, fourth = [
            make_trigger(job, due_at=due_at + n * SECOND) for n, job in enumerate(jobs)
        ]
        assert queued_ids() == [first.id, second.id]
        assert queued_ids() == []
        assert [row(trigger)["parked"] for trigger in (third, fourth)] == [True, True]
        end(first)
        assert queued_ids() == [third.id]
        end(second, third)
        assert queued_ids() == [fourth.id]

    def test_count_what_runs_already(self) -> None:
        tenant = make_tenant()
        job = make_job(tenant, concurrency_key="db", max_concurrent=1)
        make_trigger(job, "running", concurrency_key="db")
        other = make_trigger(make_job(tenant, concurrency_key="db", max_concurrent=1))
        assert queued_ids() == []
        assert state_of(other) == ("pending", "")

    def test_end_at_the_tenants_wall(self) -> None:
        triggers = [
            make_trigger(make_job(make_tenant(), concurrency_key="db", max_concurrent=1)) for _ in range(2)
        ]
        assert sorted(queued_ids()) == sorted(trigger.id for trigger in triggers)

    def test_leave_room_to_other_keys_and_none(self) -> None:
        tenant = make_tenant()
        keys = ["a", "a", "b", "", ""]
        due_at = factories.now() - MINUTE
        triggers = [
            make_trigger(make_job(tenant, concurrency_key=key, max_concurrent=1), due_at=due_at + n * SECOND)
            for n, key in enumerate(keys)
        ]
        assert sorted(queued_ids()) == sorted(triggers[i].id for i in (0, 2, 3, 4))

    def test_are_noted_on_what_is_in_flight(self) -> None:
        trigger = make_trigger(make_job(concurrency_key="db"))
        dispatch()
        assert row(trigger)["concurrency_key"] == "db"

    def test_let_a_job_bound_itself_more_tightly(self) -> None:
        job = make_job(concurrency_key="db", max_concurrent=5, overlap_policy="queue")
        older, newer = make_triggers(job, 2)
        assert queued_ids() == [older.id]
        assert queued_ids() == []
        end(older)
        assert queued_ids() == [newer.id]

    def test_show_no_more_than_fits_to_dispatch_again(self) -> None:
        tenant = make_tenant()
        triggers = [make_trigger(make_job(tenant, concurrency_key="db", max_concurrent=1)) for _ in range(6)]
        [first] = queued_ids()
        end(*[trigger for trigger in triggers if trigger.id == first])
        dispatch_store.release(after=factories.UUID(int=0), limit=100)
        assert Trigger.objects.filter(tenant_id=tenant.id, held=False, state="pending").count() == 1


class Rates:
    """Scripted rates: ``rooms`` of tenants by id, ``admitted`` at once by target, the others one second apart."""

    def __init__(self, rooms: dict[int, int] | None = None, admitted: dict[str, int] | None = None) -> None:
        self._rooms, self._admitted = rooms or {}, admitted or {}
        self.spent: dict[int, int] = {}

    def rooms(self, tenants: Iterable[Any]) -> dict[int, int]:
        rated = {tenant.id for tenant in tenants if tenant.rate_per_second}
        return {tenant_id: room for tenant_id, room in self._rooms.items() if tenant_id in rated}

    def spend(self, counts: Mapping[int, int]) -> None:
        self.spent |= counts

    def admit(self, wanted: Mapping[str, tuple[int, float]]) -> dict[str, Admission]:
        granted = {
            target: min(count, self._admitted.get(target, count)) for target, (count, _) in wanted.items()
        }
        return {
            target: Admission(some, [SECOND * (n + 1) for n in range(wanted[target][0] - some)])
            for target, some in granted.items()
        }


class TestTenantRates:
    def test_bound_what_goes_and_are_charged_for_it(self) -> None:
        slow, fast = make_tenant(rate_per_second=5), make_tenant()
        make_triggers(make_job(slow, max_concurrent=100), 9)
        make_triggers(make_job(fast, max_concurrent=100), 4)
        rates = Rates({slow.id: 3})
        result = dispatch(rates=rates)
        assert len(result.queued) == 7
        assert rates.spent == {slow.id: 3, fast.id: 4}
        assert result.blocked

    def test_let_nothing_go_without_tokens(self) -> None:
        tenant = make_tenant(rate_per_second=5)
        [trigger] = make_triggers(make_job(tenant), 1)
        rates = Rates({tenant.id: 0})
        assert dispatch(rates=rates) == dispatch_store.Dispatched(blocked=True)
        assert (rates.spent, state_of(trigger)) == ({}, ("pending", ""))

    def test_let_all_go_while_nobody_knows(self) -> None:
        tenant = make_tenant(rate_per_second=1)
        make_triggers(make_job(tenant, max_concurrent=100), 4)
        assert len(queued_ids(rates=Rates())) == 4

    def test_are_not_charged_for_what_is_parked(self) -> None:
        tenant = make_tenant(rate_per_second=5)
        make_triggers(make_job(tenant, max_concurrent=1), 4)
        rates = Rates({tenant.id: 3})
        assert len(queued_ids(rates=rates)) == 1
        assert rates.spent == {tenant.id: 1}


class TestTargets:
    @pytest.fixture(autouse=True)
    def rated(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rate_per_second": 5.0})

    def test_send_the_rest_to_wait_each_for_its_turn(self, clock: Any) -> None:
        triggers = make_triggers(make_job(target="slow.example", max_concurrent=100), 4)
        [free] = make_triggers(make_job(target="other.example"), 1)
        result = dispatch(rates=Rates(admitted={"slow.example": 2}))
        assert {item.id for item in result.queued} == {triggers[0].id, triggers[1].id, free.id}
        assert [row(trigger)["parked"] for trigger in triggers[2:]] == [True, True]
        assert states(triggers[2:]) == ["pending", "pending"]
        clock(1.5 * SECOND)
        assert queued_ids() == [triggers[2].id]
        clock(2.5 * SECOND)
        assert queued_ids() == [triggers[3].id]
        assert row(triggers[3])["parked_until"] is None

    def test_hide_nothing_behind_what_waits(self) -> None:
        tenant = make_tenant()
        make_triggers(make_job(tenant, target="slow.example", max_concurrent=100), 10)
        [later] = make_triggers(make_job(tenant), 1)
        Trigger.objects.filter(id=later.id).update(due_at=factories.now() - SECOND)
        assert queued_ids(rates=Rates(admitted={"slow.example": 0}), limit=10) == [later.id]

    def test_keep_nothing_of_a_cancelled_job_waiting(self, clock: Any) -> None:
        job = make_job(target="slow.example")
        make_triggers(job, 1)
        dispatch(rates=Rates(admitted={"slow.example": 0}))
        type(job).objects.filter(id=job.id).update(status="paused")
        clock(MINUTE)
        assert queued_ids() == []


class TestFrozenTenants:
    def test_have_what_falls_due_skipped(self) -> None:
        tenant = make_tenant(status="frozen")
        due = make_triggers(make_job(tenant, max_concurrent=10), 3)
        ahead = make_trigger(make_job(tenant), due_at=factories.now() + MINUTE)
        assert dispatch().ended == {trigger.id: "frozen" for trigger in due}
        assert {state_of(trigger) for trigger in due} == {("skipped", "frozen")}
        assert state_of(ahead) == ("pending", "")

    def test_keep_what_was_tried_before_until_the_thaw(self) -> None:
        tenant = make_tenant(status="frozen")
        retry = make_trigger(make_job(tenant), "retrying", attempt_count=1)
        assert dispatch() == dispatch_store.Dispatched()
        Tenant.objects.filter(id=tenant.id).update(status="active")
        assert queued_ids() == [retry.id]

    def test_are_thawed_a_batch_at_a_time(self) -> None:
        make_triggers(make_job(make_tenant(status="frozen"), max_concurrent=10), 5)
        assert [len(dispatch(limit=2).ended) for _ in range(4)] == [2, 2, 1, 0]

    def test_cost_others_nothing(self) -> None:
        make_triggers(make_job(make_tenant(status="frozen")), 3)
        [free] = make_triggers(make_job(), 1)
        assert queued_ids() == [free.id]


class TestSuspendedTenants:
    def test_are_not_even_looked_at(self) -> None:
        make_triggers(make_job(make_tenant(status="suspended")), 3)
        assert dispatch() == dispatch_store.Dispatched()


class TestUrgentWork:
    """A queue of 4 that is full of low work, with 2 places more for critical and high."""

    @pytest.fixture(autouse=True)
    def full(self) -> None:
        make_triggers(make_job(max_concurrent=100, overlap_policy="allow", priority=3), 20, priority=3)
        assert len(factories.dispatch(types=("noop",), window=4).queued) == 4

    @staticmethod
    def due(priority: int, count: int = 1) -> list[Trigger]:
        job = make_job(max_concurrent=100, overlap_policy="allow", priority=priority)
        return make_triggers(job, count, priority=priority)

    @pytest.mark.parametrize(("priority", "urgent", "queued"), [(0, 2, 1), (1, 2, 1), (2, 2, 0), (0, 0, 0)])
    def test_goes_beyond_a_full_queue(self, priority: int, urgent: int, queued: int) -> None:
        [one] = self.due(priority)
        done = factories.dispatch(types=("noop",), window=4, urgent=urgent)
        assert [item.id for item in done.queued] == [one.id] * queued
        assert [item.urgent for item in done.queued] == [True] * queued
        assert factories.states([one]) == ["queued" if queued else "pending"]

    def test_goes_no_further_than_its_places(self) -> None:
        self.due(0, 5)
        assert len(factories.dispatch(types=("noop",), window=4, urgent=2).queued) == 2
        assert factories.dispatch(types=("noop",), window=4, urgent=2).queued == []

    def test_goes_beyond_no_cap_and_no_pause(self) -> None:
        self.due(0, 2)
        assert factories.dispatch(types=(), window=4, urgent=2, noop=4).queued == []
        assert len(factories.dispatch(types=(), window=4, urgent=2, noop=5).queued) == 1
        Queue.objects.filter(job_type="noop").update(paused_at=factories.now())
        assert factories.dispatch(types=("noop",), window=4, urgent=2).queued == []

    def test_goes_beyond_no_tenants_cap(self) -> None:
        [one] = self.due(0)
        one.tenant.max_in_flight = 1
        one.tenant.save()
        second = make_trigger(one.job, priority=0)
        done = factories.dispatch(types=("noop",), window=4, urgent=2)
        assert len(done.queued) == 1
        assert {one.id, second.id} >= {item.id for item in done.queued}


class TestWindows:
    """A window of 10 at first, between 2 and 100. One second's work is queued ahead. One second passes where said."""

    @staticmethod
    def fit(clock: Any, *, after: timedelta, turn_seconds: float = 0.0) -> int:
        clock(after)
        memory = dispatch_store.Memory()
        memory.turn_seconds = turn_seconds
        window = dispatch_store.Window(initial=10, minimum=2, maximum=100, wait=SECOND)
        dispatch_store.open_queues(["noop"], window)
        dispatch_store.dispatch(
            memory=memory,
            leadership=factories.ANYONE,
            caps={"noop": None},
            window=window,
            limit=500,
            rates=factories.UNLIMITED,
        )
        return Queue.objects.get(job_type="noop").window

    @staticmethod
    def claim(count: int) -> None:
        taken = Trigger.objects.filter(state="queued").order_by("due_at").values_list("id", flat=True)[:count]
        Trigger.objects.filter(id__in=list(taken)).update(state="succeeded")

    @staticmethod
    def queued() -> int:
        return Trigger.objects.filter(state="queued").count()

    @pytest.fixture(autouse=True)
    def much_is_due(self, clock: Any) -> None:
        make_triggers(make_job(max_concurrent=1000), 300)

    def test_hold_the_queue_to_their_size(self, clock: Any) -> None:
        assert self.fit(clock, after=timedelta()) == 10
        assert self.queued() == 10

    def test_grow_to_what_workers_take(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        self.claim(10)
        window = self.fit(clock, after=SECOND / 2)
        assert 10 < window <= 20  # 10 in half a second, and those of the time that the test took
        assert self.queued() == window

    def test_grow_no_further_than_allowed(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        windows = []
        for turn in range(1, 7):
            self.claim(100)
            windows.append(self.fit(clock, after=0.3 * SECOND * turn))
        assert windows == sorted(windows)
        assert windows[-1] == 100

    def test_shrink_when_the_queue_outlasts_the_wait(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        self.claim(3)
        assert self.fit(clock, after=SECOND) in (2, 3)
        assert self.fit(clock, after=1.8 * SECOND) == 2

    def test_are_no_smaller_than_at_first_while_turns_are_slow(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        self.claim(3)
        assert self.fit(clock, after=SECOND, turn_seconds=1.1) == 10
        assert self.fit(clock, after=1.8 * SECOND) == 2
        self.claim(2)
        assert self.fit(clock, after=5 * SECOND, turn_seconds=2.4) == 10

    def test_stay_while_workers_wait_for_work(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        Trigger.objects.filter(state="pending").update(held=True)
        self.claim(10)
        make_triggers(make_job(), 1)
        self.fit(clock, after=SECOND)
        self.claim(1)
        make_triggers(make_job(), 1)
        assert self.fit(clock, after=2 * SECOND) == 10

    def test_learn_nothing_from_a_long_pause(self, clock: Any) -> None:
        self.fit(clock, after=timedelta())
        self.claim(1)
        assert self.fit(clock, after=MINUTE) == 10

"""A target's cap and its rate, with real dispatches (DESIGN §8)."""

from typing import Any
from uuid import uuid4

import pytest

from jobs.limits import Buckets, Rates
from jobs.models import Installation, Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store.dispatch import Memory
from tests.factories import SECOND, dispatch, row, states
from tests.store.targets.rules import change, ids, make_calling, put, queued

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestCap:
    def test_bounds_what_is_in_flight_over_all_tenants(self) -> None:
        for _ in range(3):
            make_calling(4)
        change(max_in_flight=4)
        memory = Memory()
        assert len(queued(memory=memory)) == 4
        assert queued(memory=memory) == set()
        ended = Trigger.objects.filter(state="queued").values_list("id", flat=True)[:2]
        Trigger.objects.filter(id__in=list(ended)).update(state="succeeded")
        assert len(queued(memory=memory)) == 2
        change(max_in_flight=None)
        assert len(queued(memory=memory)) == 6

    def test_is_of_each_host_by_itself(self) -> None:
        for host in ("a.example.com", "b.example.com"):
            make_calling(3, host)
        change("*.example.com", max_in_flight=2)
        assert len(queued()) == 4

    def test_counts_what_runs_and_takes_nothing_back(self) -> None:
        running = make_calling(5, state="running")
        make_calling(1)
        change(max_in_flight=2)
        assert queued() == set()
        assert set(states(running)) == {"running"}

    def test_leaves_what_waits_for_one_tenant_to_the_others(self) -> None:
        flood, other = make_calling(50), make_calling(1)
        change(max_in_flight=10)
        memory = Memory()
        served: set[Any] = set()
        for _ in range(3):
            served |= (now := queued(memory=memory))
            Trigger.objects.filter(id__in=now).update(state="succeeded")
        assert ids(other) <= served
        assert len(served & ids(flood)) >= 20


class TestRate:
    @pytest.fixture
    def rates(self, settings: Any) -> Rates:
        return Rates(Buckets(url=settings.REDIS_URL))

    @pytest.fixture
    def host(self) -> str:
        return f"{uuid4()}.example"

    def test_goes_before_that_of_the_settings(self, rates: Rates, host: str, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rate_per_second": 1.0})
        make_calling(9, host)
        change(host, rate_per_second=4)
        assert len(queued(rates=rates)) == 4

    def test_that_is_lifted_lets_go_at_once_what_waited_for_its_turn(self, rates: Rates, host: str) -> None:
        memory = Memory()
        triggers = make_calling(6, host)
        other = make_calling(3, f"other.{host}")
        for name in (host, f"other.{host}"):
            change(name, rate_per_second=0.01)
        assert len(queued(rates=rates, memory=memory)) == 2
        TestRate.follow(memory, rates)
        assert queued(rates=rates, memory=memory) == set()
        turns = {trigger.id: row(trigger)["parked_until"] for trigger in other[1:]}

        change(host, rate_per_second=0)
        dispatch(rates=rates, memory=memory)
        assert TestRate.follow(memory, rates) == 5
        assert queued(rates=rates, memory=memory) == ids(triggers[1:])
        assert {trigger.id: row(trigger)["parked_until"] for trigger in other[1:]} == turns
        assert Installation.objects.get().targets_changed == []

    def test_that_stays_gives_the_turns_out_anew(self, rates: Rates, host: str) -> None:
        memory, triggers = Memory(), make_calling(4, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        first = sorted(row(trigger)["parked_until"] for trigger in triggers[1:])
        put(host, rate_per_second=0.01, max_in_flight=9)
        dispatch(rates=rates, memory=memory)
        assert TestRate.follow(memory, rates) == 3
        dispatch(rates=rates, memory=memory)
        again = sorted(row(trigger)["parked_until"] for trigger in triggers[1:])
        assert abs(again[0] - first[0]) < 50 * SECOND

    def test_is_not_followed_before_dispatch_knows_it(self, rates: Rates, host: str) -> None:
        memory = Memory()
        make_calling(3, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        change(host, rate_per_second=0)
        assert TestRate.follow(memory, rates) == 0
        assert Installation.objects.get().targets_changed == [host]

    def test_sends_nothing_ahead_for_ever(self, rates: Rates, host: str) -> None:
        """Dispatch parks triggers that the walk has shown again, further ahead: the walk must not meet them again."""
        memory, triggers = Memory(), make_calling(7, host)
        change(host, rate_per_second=0.01)
        dispatch(rates=rates, memory=memory)
        put(host, rate_per_second=0.01, max_in_flight=9)
        dispatch(rates=rates, memory=memory)
        following, shown, more = dispatch_store.Following(), 0, True
        for _ in range(20):
            some, more = TestRate.slice(following, memory, rates)
            shown += some
            dispatch(rates=rates, memory=memory)
        assert (shown, more) == (6, False)
        assert sum(row(trigger)["parked"] for trigger in triggers) == 6

    @staticmethod
    def slice(following: dispatch_store.Following, memory: Memory, rates: Rates) -> tuple[int, bool]:
        return following.step(version=memory.rules.version, limit=2, forget=rates.forget_turns)

    @staticmethod
    def follow(memory: Memory, rates: Rates) -> int:
        following, shown, more = dispatch_store.Following(), 0, True
        while more:
            some, more = TestRate.slice(following, memory, rates)
            shown += some
        return shown

"""Turns: places go by service received and weight (DESIGN §8), with any number of lanes."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.backlog import Backlog, Lane, News, Turns
from jobs.core.backlog import turns as turns_module
from jobs.core.backlog.shares import FIRST_DEPTH
from jobs.core.backlog.turns import PORTIONS, portion_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lane(tenant_id: int, job_type: str = "noop", priority: int = 2, depth: int = 100_000) -> Lane:
    return Lane(tenant_id, job_type, priority, NOW, depth)


def turns_of(lanes: Iterable[Lane]) -> Turns:
    turns = Turns()
    for item in lanes:
        turns.add(item)
    return turns


def served(turns: Turns, limit: int, *, room: int = 1000, rooms: dict[str, int] | None = None) -> list[int]:
    """The tenant of each place, in order."""
    turns.recall(lambda _: room)
    asks = turns.allot(limit, {"noop": 10_000} if rooms is None else rooms, lambda _: room)
    return [tenant for ask in asks for tenant in [ask.lane.tenant_id] * ask.count]


class TestTurns:
    def test_go_by_weight_within_one_place(self) -> None:
        turns = turns_of(lane(tenant) for tenant in (1, 2, 3))
        weights = {1: 100, 2: 200, 3: 300}
        for tenant, weight in weights.items():
            turns.weigh(tenant, weight)
        counts: Counter[int] = Counter()
        for _ in range(100):
            counts.update(served(turns, 6))
            turns.hold({}, seconds=0)  # all of it ended at once
        assert all(abs(counts[tenant] - weight) <= 1 for tenant, weight in weights.items())

    def test_serve_a_newcomer_next_whatever_the_others_wait_for(self) -> None:
        turns = turns_of(lane(tenant) for tenant in range(1, 401))
        served(turns, 256)
        turns.add(lane(1000, priority=0))
        # Tenants that were not served yet have the tag that the newcomer would have had, had it come at the start.
        assert 1000 in served(turns, 150 + 400)
        turns.add(lane(1001, priority=0))
        for _ in range(40):
            served(turns, 256)
            turns.hold({}, seconds=0)
        turns.add(lane(1002, priority=0))
        assert 1002 in served(turns, 401)

    def test_serve_the_most_urgent_of_equals_first(self) -> None:
        turns = turns_of(lane(tenant) for tenant in range(1, 401))
        served(turns, 100)
        turns.add(lane(1000, priority=0))
        assert served(turns, 1) == [1000]

    def test_serve_a_newcomer_before_its_equals_and_once_a_round(self) -> None:
        turns = turns_of(lane(tenant) for tenant in range(1, 401))
        served(turns, 100)
        for nth in range(3):
            turns.add(newcomer := lane(1000))
            assert (served(turns, 1) == [1000]) == (nth == 0)
            turns.hold({}, seconds=0)
            turns.remove(newcomer)

    def test_pay_nobody_for_having_been_idle(self) -> None:
        turns = turns_of([lane(1), lane(2)])
        turns.remove(lane(2))
        served(turns, 1000)
        turns.add(lane(2))
        turns.hold({}, seconds=0)
        # The clock is where the last portion of the one tenant began.
        assert abs(Counter(served(turns, 100))[1] - 50) <= 1000 // PORTIONS

    def test_let_a_place_that_was_not_used_go_to_the_same_tenant(self) -> None:
        first, second = lane(1), lane(2)
        turns = turns_of([first, second])
        assert sorted(served(turns, 2)) == [1, 2]
        turns.give_back(second, 1)
        assert served(turns, 1) == [2]

    def test_pay_nobody_for_triggers_that_may_not_start(self) -> None:
        stuck, others = lane(1), [lane(tenant) for tenant in range(2, 7)]
        turns = turns_of([stuck, *others])
        for _ in range(30):
            turns.recall(lambda _: 1000)
            turns.hold({each.tenant_id: 5 for each in others}, seconds=1.0)
            places = dict.fromkeys((stuck, *others), 0)
            for _ in range(5):
                for ask in turns.allot(100, {"noop": 10_000}, lambda _: 1000):
                    places[ask.lane] += ask.count
                    if ask.lane is stuck:
                        turns.give_back(stuck, 0, passed=ask.count)
            # It has its share of what is looked at, and no more than that.
            assert all(50 <= places[each] <= 120 for each in others)

    def test_pass_over_tenants_without_room_and_come_back_to_them(self) -> None:
        turns = turns_of([lane(1), lane(2)])
        asks = turns.allot(4, {"noop": 100}, lambda tenant: 0 if tenant == 1 else 100)
        assert {ask.lane.tenant_id for ask in asks} == {2}
        assert Counter(served(turns, 4))[1] >= 3

    def test_let_a_full_type_hide_no_other(self) -> None:
        turns = turns_of([lane(1, "slow"), lane(1), lane(2, "slow"), lane(3)])
        rooms = {"slow": 0, "noop": 10}
        asks = turns.allot(10, rooms, lambda _: 100)
        assert {ask.lane.job_type for ask in asks} == {"noop"}
        assert rooms == {"slow": 0, "noop": 0}

    def test_pass_over_what_is_barred_until_it_is_not(self) -> None:
        turns = turns_of([lane(1, "shared"), lane(1), lane(2, "shared")])

        def served_now(
            is_barred: Callable[[int, str], bool] | None, shared: int = 4
        ) -> Counter[tuple[int, str]]:
            turns.recall(lambda _: 100, is_barred)
            asks = turns.allot(50, {"shared": shared, "noop": 4}, lambda _: 100)
            counts: Counter[tuple[int, str]] = Counter()
            for ask in asks:
                counts[ask.lane.tenant_id, ask.lane.job_type] += ask.count
            return counts

        for _ in range(2):
            assert served_now(lambda *key: key == (1, "shared")) == {(2, "shared"): 4, (1, "noop"): 4}
        assert served_now(lambda _, job_type: job_type == "shared") == {(1, "noop"): 4}
        assert served_now(None, shared=40)[1, "shared"] > 0

    def test_hold_a_tenant_with_long_jobs_to_its_share_of_slots(self) -> None:
        """Ten slots; the triggers of one tenant take a second, those of the other ten."""
        turns = turns_of([lane(1), lane(2)])
        ends: list[tuple[float, int]] = []
        slot_seconds: Counter[int] = Counter()
        for step in count():
            now = step / 10
            if now > 300:
                break
            ends = [(end, tenant) for end, tenant in ends if end > now]
            in_flight = Counter(tenant for _, tenant in ends)
            slot_seconds.update(in_flight)
            turns.hold(in_flight, seconds=0.1)
            for tenant in served(turns, 10 - len(ends)):
                ends.append((now + (1 if tenant == 1 else 10), tenant))
        assert 0.75 < slot_seconds[1] / slot_seconds[2] < 1.34

    @given(st.lists(st.integers(1, 8), min_size=2, max_size=60), st.integers(1, 300))
    @settings(max_examples=60, deadline=None)
    def test_let_nobody_wait_longer_than_twice_its_fair_turn(self, weights: list[int], places: int) -> None:
        turns = turns_of(lane(tenant) for tenant in range(len(weights)))
        for tenant, weight in enumerate(weights):
            turns.weigh(tenant, weight)
        order: list[int] = []
        while len(order) < 20 * sum(weights):
            order += served(turns, places)
            turns.hold({}, seconds=0)
        for tenant, weight in enumerate(weights):
            turns_of_it = [place for place, served_now in enumerate(order) if served_now == tenant]
            fair = sum(weights) / weight
            portion = portion_of(places, len(weights))
            longest = max(after - before for before, after in pairwise(turns_of_it))
            assert longest <= 2 * fair * portion + len(weights)

    def test_forget_idle_tenants(self) -> None:
        turns = Turns()
        for tenant in range(5000):
            turns.add(lane(tenant))
            served(turns, 1)
            turns.hold({}, seconds=0)
            turns.remove(lane(tenant))
        assert len(turns._shares) < 1200

    def test_reckon_with_what_is_in_flight_when_nothing_else_is_known(self) -> None:
        turns = turns_of([lane(1), lane(2)])
        turns.hold({1: 6, 2: 2}, seconds=0)
        assert Counter(served(turns, 4)) == {2: 4}


class TestRooms:
    def test_limit_what_each_type_is_asked_for(self) -> None:
        turns = turns_of([lane(1), lane(1, "slow")])
        asks = turns.allot(50, {"noop": 7, "slow": 3}, lambda _: 100)
        assert Counter(place for ask in asks for place in [ask.lane.job_type] * ask.count) == {
            "noop": 7,
            "slow": 3,
        }


def test_a_lane_is_due_when_its_floor_has_come() -> None:
    backlog = Backlog()
    backlog.learn([News(1, "noop", 2, NOW + timedelta(seconds=5)), News(2, "noop", 2, NOW)])
    backlog.advance(NOW)
    assert set(backlog.turns.tenants) == {2}
    assert backlog.next_floor() == NOW + timedelta(seconds=5)


class TestDepth:
    """A lane is asked for as many triggers as may be due, not for all the room there is."""

    @pytest.fixture(autouse=True)
    def no_place_by_tag_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(turns_module, "BY_TAG_ALONE", 0)

    def test_does_not_matter_for_the_first_places(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(turns_module, "BY_TAG_ALONE", 50)
        turns = turns_of([lane(1, depth=1), lane(2, depth=600)])
        turns.weigh(1, 400)
        assert self.asked(turns) == {1: 40, 2: 600}

    @staticmethod
    def asked(turns: Turns) -> Counter[int]:
        turns.recall(lambda _: 1000)
        asks = turns.allot(1000, {"noop": 1000}, lambda _: 1000)
        return Counter(tenant for ask in asks for tenant in [ask.lane.tenant_id] * ask.count)

    def test_bounds_what_a_lane_is_asked_for_and_no_more(self) -> None:
        turns = turns_of([lane(1, depth=3), lane(2, depth=600), lane(3, depth=1)])
        assert self.asked(turns) == {1: 3, 2: 600, 3: 1}
        # Nothing was found, and all stand in line as before.
        assert self.asked(turns) == {1: 3, 2: 600, 3: 1}

    def test_of_one_lane_leaves_the_others_of_its_tenant(self) -> None:
        turns = turns_of([lane(1, priority=0, depth=2), lane(1, priority=3, depth=5)])
        assert self.asked(turns) == {1: 7}

    def test_rises_while_all_that_was_asked_for_is_found(self) -> None:
        deep = Lane(1, "noop", 2, NOW)
        turns, found = turns_of([deep]), []
        for _ in range(4):
            found.append(self.asked(turns)[1])
            deep.move(NOW, found=found[-1])
        assert found == [FIRST_DEPTH, FIRST_DEPTH * 8, FIRST_DEPTH * 64, 1000]
        deep.move(NOW, found=1)  # there was room for no more
        assert self.asked(turns) == {1: 1000}

    def test_is_unknown_again_once_a_look_found_less(self) -> None:
        backlog = Backlog()
        backlog.learn([News(1, "noop", 2, NOW)])
        backlog.advance(NOW)
        [known] = backlog.turns.lanes()
        known.move(NOW, found=FIRST_DEPTH)
        assert self.asked(backlog.turns)[1] > FIRST_DEPTH
        backlog.settle(known, NOW + timedelta(seconds=1), now=NOW)
        backlog.advance(NOW + timedelta(seconds=1))
        assert self.asked(backlog.turns) == {1: FIRST_DEPTH}


class TestUrgentTurns:
    """Beyond a full queue there are places for critical and high alone."""

    @staticmethod
    def served(
        turns: Turns, limit: int = 100, *, room: int = 100, **rooms: int
    ) -> list[tuple[int, str, int]]:
        asks = turns.allot_urgent(limit, rooms, lambda _: room)
        return [
            (ask.lane.tenant_id, ask.lane.job_type, ask.lane.priority)
            for ask in asks
            for _ in range(ask.count)
        ]

    def test_go_to_urgent_lanes_alone(self) -> None:
        turns = turns_of(lane(tenant, priority=priority) for tenant in (1, 2) for priority in range(4))
        assert {priority for _, _, priority in self.served(turns, noop=16)} == {0, 1}
        assert self.served(turns_of([lane(1, priority=2), lane(2, priority=3)]), noop=16) == []

    def test_are_shared_among_tenants_and_held_to_every_bound(self) -> None:
        turns = turns_of(lane(tenant, priority=0) for tenant in range(1, 9))
        assert Counter(tenant for tenant, *_ in self.served(turns, noop=16)) == dict.fromkeys(range(1, 9), 2)
        assert len(self.served(turns, 3, noop=16)) == 3
        assert len(self.served(turns, noop=5)) == 5
        assert self.served(turns, room=0, noop=16) == []
        assert self.served(turns, noop=0, other=16) == []
        both = turns_of([lane(1, "a", 0), lane(1, "b", 1)])
        assert len(self.served(both, room=3, a=16, b=16)) == 3

    def test_pass_over_tenants_that_may_start_nothing(self) -> None:
        turns = turns_of(lane(tenant, priority=0) for tenant in range(1, 41))
        turns.recall(lambda _: 1, lambda tenant, _: tenant <= 16)
        asks = turns.allot_urgent(100, {"noop": 8}, lambda tenant: 0 if tenant <= 32 else 1)
        assert {ask.lane.tenant_id for ask in asks} == set(range(33, 41))

    def test_look_at_some_tenants_at_a_time_and_come_round_to_all(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(turns_module, "URGENT_LOOKS", 10)
        turns = turns_of(lane(tenant, priority=0) for tenant in range(1, 36))
        looked_at: list[int] = []

        def room_of(tenant: int) -> int:
            looked_at.append(tenant)
            return int(tenant == 35)

        served = [turns.allot_urgent(100, {"noop": 8}, room_of) for _ in range(4)]
        assert [[ask.lane.tenant_id for ask in asks] for asks in served] == [[], [], [], [35]]
        # The tenant that is served is asked about once more.
        assert len(looked_at) == 4 * 10 + 1

    def test_end_with_the_lane(self) -> None:
        critical, high = lane(1, priority=0), lane(1, priority=1)
        turns = turns_of([critical, high])
        turns.remove(critical)
        assert {priority for _, _, priority in self.served(turns, noop=16)} == {1}
        turns.remove(high)
        assert self.served(turns, noop=16) == []

    def test_are_charged_and_given_back(self) -> None:
        first, second = lane(1, priority=0), lane(2, priority=0)
        turns = turns_of([first, second])
        assert self.served(turns, noop=1) == [(1, "noop", 0)]
        assert self.served(turns, noop=1) == [(2, "noop", 0)]
        turns.give_back(second, 1)
        assert self.served(turns, noop=1) == [(2, "noop", 0)]
        # This does not disturb the usual turns.
        assert Counter(served(turns, 4)).total() == 4

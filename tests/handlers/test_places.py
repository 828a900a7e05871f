"""Calls of a process get places by tenant, and start a few at a time, of each tenant in turn."""

from collections.abc import Callable
from itertools import pairwise

from jobs.handlers.shares.places import SLOW_SECONDS, STARTS, STARTS_WHEN_SLOW, Places

ROOM = 400


class Loop:
    """Turns of a loop, by hand."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def soon(self, function: Callable[[], None]) -> None:
        self._soon.append(function)

    def turn(self, seconds: float = 0.001) -> None:
        self.now += seconds
        due, self._soon = self._soon, []
        for function in due:
            function()


class Line:
    """Calls that note the tenant whose turn it was."""

    def __init__(self, total: int) -> None:
        self.loop = Loop()
        self.places = Places(total, room=ROOM, soon=self.loop.soon, clock=self.loop.clock)
        self.begun: list[str] = []

    def enter(self, tenant: str, calls: int) -> None:
        for _ in range(calls):
            self.places.enter(tenant, _Call(self.begun, tenant))


class _Call:
    def __init__(self, begun: list[str], tenant: str) -> None:
        self._begun, self._tenant = begun, tenant

    def may_start(self) -> bool:
        return True

    def start(self) -> bool:
        self._begun.append(self._tenant)
        return True


def test_calls_start_a_few_at_a_time() -> None:
    line = Line(600)
    line.enter("a", 100)
    for turn in range(1, 100 // STARTS + 1):
        assert len(line.begun) == turn * STARTS
        line.loop.turn()
    assert len(line.begun) == 100


def test_fewer_calls_start_in_a_turn_while_turns_are_slow() -> None:
    line = Line(600)
    line.enter("a", 100)
    begun = [len(line.begun)]
    for seconds in (2 * SLOW_SECONDS, 2 * SLOW_SECONDS, SLOW_SECONDS / 2, SLOW_SECONDS / 2):
        line.loop.turn(seconds)
        begun.append(len(line.begun))
    few = STARTS_WHEN_SLOW
    assert [after - before for before, after in pairwise(begun)] == [few, few, few + 1, few + 2]


def test_a_tenants_call_does_not_wait_until_anothers_have_all_started() -> None:
    line = Line(600)
    line.enter("a", 100)
    line.enter("b", 1)
    for _ in range(2):
        line.loop.turn()
    assert line.begun.index("b") <= 2 * STARTS


def test_tenants_take_turns() -> None:
    line = Line(600)
    for tenant in "abc":
        line.enter(tenant, 2 * STARTS)
    for _ in range(3):
        line.loop.turn()
    # The first turn was over before the others came.
    middle = line.begun[STARTS:]
    assert {tenant: middle.count(tenant) for tenant in "abc"} == dict.fromkeys("abc", STARTS)


def test_a_call_that_waits_for_its_turn_alone_does_not_make_its_tenant_wait_for_places() -> None:
    line = Line(600)
    line.enter("a", 100)
    assert line.places.usage() == ((), ())


def test_a_tenant_without_places_is_told_to_wait_and_holds_up_no_other() -> None:
    line = Line(6)
    line.enter("a", 10)
    for _ in range(10):
        line.loop.turn()
    assert line.begun == ["a", "a"]
    assert line.places.usage().waiting == ("a",)
    line.enter("b", 1)
    assert line.begun == ["a", "a", "b"]
    line.places.leave("a")
    line.loop.turn()
    assert line.begun == ["a", "a", "b", "a"]

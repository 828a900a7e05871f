"""The table of misfire policies over stretches of instants: however they are cut, the same firings run."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.calendar.timetable import Listed
from jobs.engine.firing.verdicts import (
    Decided,
    Stretch,
    between,
    decide,
    most_to_run,
    reason_within_window,
    runs,
)
from tests.factories import MINUTE, utc

START = utc(2026, 1, 1)


def at(*minutes: int) -> list[datetime]:
    return [START + MINUTE * minute for minute in minutes]


def pool(*parts: list[datetime]) -> list[Stretch]:
    return [stretch for part in parts for stretch in between(Listed(part), [])]


def listed(stretches: list[Stretch]) -> list[datetime]:
    return [instant for stretch in stretches for instant in stretch.instants()]


def verdict(found: Decided) -> tuple[list[datetime], list[datetime], list[datetime]]:
    return listed(found.misfired), listed(found.passed_over), found.tail


class TestDecide:
    def test_carries_the_newest_on_and_tells_the_rest_by_the_window(self) -> None:
        found = decide(pool(at(1, 2), at(3, 4, 5)), keep=2, window_start=at(2)[0], last=False)
        assert verdict(found) == (at(1), at(2, 3), at(4, 5))

    def test_lets_none_older_than_the_window_run_in_the_end(self) -> None:
        found = decide(pool(at(1, 2), at(3)), keep=3, window_start=at(3)[0], last=True)
        assert verdict(found) == (at(1, 2), [], at(3))

    def test_keeps_none_where_none_may_run(self) -> None:
        found = decide(pool(at(1, 2)), keep=0, window_start=at(2)[0], last=True)
        assert verdict(found) == (at(1), at(2), [])

    @given(
        st.lists(st.integers(0, 200), unique=True, max_size=60).map(sorted),
        st.sets(st.integers(0, 200), max_size=20),
        st.lists(st.integers(1, 20), min_size=1, max_size=10),
        st.integers(0, 30),
        st.integers(-5, 205),
    )
    def test_comes_to_the_same_in_one_part_or_in_many(
        self, minutes: list[int], holes: set[int], sizes: list[int], keep: int, window: int
    ) -> None:
        named, recorded, window_start = at(*minutes), at(*sorted(holes)), at(window)[0]
        instants = [instant for instant in named if instant not in recorded]
        within = [instant for instant in instants if instant >= window_start]
        running = within[len(within) - keep :] if keep < len(within) else within
        tail: list[datetime] = []
        misfired: list[datetime] = []
        passed_over: list[datetime] = []
        start = 0
        for size in [*sizes, len(named) + 1]:
            last = start + size >= len(named)
            parts = [
                *between(Listed(tail), recorded),
                *between(Listed(named[start : start + size]), recorded),
            ]
            found = decide(parts, keep=keep, window_start=window_start, last=last)
            misfired += listed(found.misfired)
            passed_over += listed(found.passed_over)
            tail, start = found.tail, start + size
            if last:
                break
        assert tail == running
        assert misfired == [instant for instant in instants if instant < window_start]
        assert passed_over == within[: len(within) - len(running)]


class TestParts:
    def test_are_cut_where_a_firing_has_another_fate(self) -> None:
        times = Listed(at(*range(10)))
        assert [
            (part.first, part.last, part.length)
            for part in between(times, [*at(0, 4, 5), START + MINUTE * 6.5])
        ] == [(*at(1, 3), 3), (*at(6, 6), 1), (*at(7, 9), 3)]
        assert between(Listed([]), at(1)) == []
        assert [part.length for part in between(times, [*at(-1), *at(9), *at(20)])] == [9]

    def test_are_joined_again_where_none_has(self) -> None:
        recorded = at(4)
        parts = [*between(Listed(at(1, 2)), recorded), *between(Listed(at(3, 5, 6)), recorded)]
        assert runs(parts, recorded) == [(*at(1, 3), 3), (*at(5, 6), 2)]
        assert runs([], recorded) == []


class TestThePolicies:
    @pytest.mark.parametrize(
        ("policy", "most", "reason"),
        [("skip", 0, "misfire"), ("fire_once", 1, "coalesced"), ("backfill", 7, "misfire")],
    )
    def test_say_how_many_run_and_why_the_others_do_not(self, policy: str, most: int, reason: str) -> None:
        assert (most_to_run(policy, max_catchup=7), reason_within_window(policy)) == (most, reason)

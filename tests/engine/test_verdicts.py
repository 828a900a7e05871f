"""The table of misfire policies over stretches of instants: however they are cut, the same firings run."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine.firing.verdicts import decide, most_to_run, reason_within_window
from tests.factories import MINUTE, utc

START = utc(2026, 1, 1)


def at(*minutes: int) -> list[datetime]:
    return [START + MINUTE * minute for minute in minutes]


class TestDecide:
    def test_carries_the_newest_on_and_tells_the_rest_by_the_window(self) -> None:
        found = decide(at(1, 2), at(3, 4, 5), keep=2, window_start=at(2)[0], last=False)
        assert found == (at(1), at(2, 3), at(4, 5))

    def test_lets_none_older_than_the_window_run_in_the_end(self) -> None:
        found = decide(at(1, 2), at(3), keep=3, window_start=at(3)[0], last=True)
        assert found == (at(1, 2), [], at(3))

    def test_keeps_none_where_none_may_run(self) -> None:
        assert decide((), at(1, 2), keep=0, window_start=at(2)[0], last=True) == (at(1), at(2), [])

    @given(
        st.lists(st.integers(0, 200), unique=True, max_size=60).map(sorted),
        st.lists(st.integers(1, 20), min_size=1, max_size=10),
        st.integers(0, 30),
        st.integers(-5, 205),
    )
    def test_comes_to_the_same_in_one_chunk_or_in_many(
        self, minutes: list[int], sizes: list[int], keep: int, window: int
    ) -> None:
        instants, window_start = at(*minutes), at(window)[0]
        within = [instant for instant in instants if instant >= window_start]
        running = within[len(within) - keep :] if keep < len(within) else within
        tail: list[datetime] = []
        misfired: list[datetime] = []
        passed_over: list[datetime] = []
        start = 0
        for size in [*sizes, len(instants) + 1]:
            last = start + size >= len(instants)
            found = decide(
                tail, instants[start : start + size], keep=keep, window_start=window_start, last=last
            )
            misfired += found.misfired
            passed_over += found.passed_over
            tail, start = list(found.tail), start + size
            if last:
                break
        assert tail == running
        assert misfired == [instant for instant in instants if instant < window_start]
        assert passed_over == within[: len(within) - len(running)]


class TestThePolicies:
    @pytest.mark.parametrize(
        ("policy", "most", "reason"),
        [("skip", 0, "misfire"), ("fire_once", 1, "coalesced"), ("backfill", 7, "misfire")],
    )
    def test_say_how_many_run_and_why_the_others_do_not(self, policy: str, most: int, reason: str) -> None:
        assert (most_to_run(policy, max_catchup=7), reason_within_window(policy)) == (most, reason)

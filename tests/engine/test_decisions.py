"""The misfire policies over stretches of instants: however these are cut, each ends as dispatch would decide it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.calendar.timetable import Listed
from jobs.core.policies import Decision, JobFacts
from jobs.core.policies import decide as decide_one
from jobs.engine.firing.decisions import Decided, Stretch, between, decide, runs
from tests.factories import MINUTE, utc

START = utc(2026, 1, 1)


def at(*minutes: int) -> list[datetime]:
    return [START + MINUTE * minute for minute in minutes]


def pool(*parts: list[datetime]) -> list[Stretch]:
    return [stretch for part in parts for stretch in between(Listed(part), [])]


def listed(stretches: list[Stretch]) -> list[datetime]:
    return [instant for stretch in stretches for instant in stretch.instants()]


def shown(found: Decided) -> tuple[dict[str, list[datetime]], list[datetime]]:
    return {reason: listed(stretches) for reason, stretches in found.ended.items()}, found.tail


@dataclass(frozen=True)
class Missed:
    """A firing that dispatch would see long after it was due."""

    scheduled_for: datetime
    job_type: str = "noop"
    state: str = "pending"
    origin: str = "schedule"
    attempt_count: int = 0
    replay_count: int = 0

    @property
    def due_at(self) -> datetime:
        return self.scheduled_for


def by_dispatch(
    instants: list[datetime], *, policy: str, keep: int, window_start: datetime
) -> tuple[dict[str, list[datetime]], list[datetime]]:
    """The decisions of dispatch about the same firings, one after another."""
    facts = JobFacts(
        job_type="noop",
        active=True,
        ended=False,
        overlap_policy="allow",
        misfire_policy=policy,
        misfire_grace=timedelta(0),
        catchup_window=START + timedelta(days=1) - window_start,
        max_concurrent=1,
        now=START + timedelta(days=1),
        keep_from=instants[-keep] if 0 < keep <= len(instants) else None,
    )
    ended: dict[str, list[datetime]] = {}
    tail = []
    for instant in instants:
        decision = decide_one(Missed(instant), facts)
        if decision == Decision.DISPATCH:
            tail.append(instant)
        else:
            ended.setdefault(str(decision), []).append(instant)
    return ended, tail


class TestDecide:
    @pytest.mark.parametrize(
        ("policy", "max_catchup", "window", "ended", "tail"),
        [
            ("backfill", 2, 2, {"misfire": at(1, 2, 3)}, at(4, 5)),
            ("backfill", 9, 4, {"misfire": at(1, 2, 3)}, at(4, 5)),
            ("backfill", 9, 0, {}, at(1, 2, 3, 4, 5)),
            ("fire_once", 9, 3, {"misfire": at(1, 2), "coalesced": at(3, 4)}, at(5)),
            ("fire_once", 9, 6, {"misfire": at(1, 2, 3, 4, 5)}, []),
            ("skip", 9, 3, {"misfire": at(1, 2, 3, 4, 5)}, []),
        ],
    )
    def test_lets_as_many_of_the_newest_run_as_the_policy_says(
        self,
        policy: str,
        max_catchup: int,
        window: int,
        ended: dict[str, list[datetime]],
        tail: list[datetime],
    ) -> None:
        missed = pool(at(1, 2), at(3, 4, 5))
        found = decide(missed, policy=policy, max_catchup=max_catchup, window_start=at(window)[0])
        assert shown(found) == (ended, tail)
        assert found.skipped == 5 - len(tail)

    @given(
        st.sampled_from(("skip", "fire_once", "backfill")),
        st.lists(st.integers(0, 200), unique=True, max_size=60).map(sorted),
        st.sets(st.integers(0, 200), max_size=20),
        st.lists(st.integers(1, 20), min_size=1, max_size=10),
        st.integers(1, 30),
        st.integers(-5, 205),
    )
    def test_comes_to_what_dispatch_decides_in_one_part_or_in_many(
        self,
        policy: str,
        minutes: list[int],
        holes: set[int],
        sizes: list[int],
        max_catchup: int,
        window: int,
    ) -> None:
        named, recorded, window_start = at(*minutes), at(*sorted(holes)), at(window)[0]
        instants = [instant for instant in named if instant not in recorded]
        keep = 1 if policy == "fire_once" else max_catchup
        tail: list[datetime] = []
        ended: dict[str, list[datetime]] = {}
        start = 0
        for size in [*sizes, len(named) + 1]:
            parts = [
                *between(Listed(tail), recorded),
                *between(Listed(named[start : start + size]), recorded),
            ]
            found = decide(parts, policy=policy, max_catchup=max_catchup, window_start=window_start)
            for reason, stretches in found.ended.items():
                ended.setdefault(reason, []).extend(listed(stretches))
            tail, start = found.tail, start + size
            if start >= len(named):
                break
        assert (ended, tail) == by_dispatch(instants, policy=policy, keep=keep, window_start=window_start)


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

"""Decide missed firings: apply the rule of ``core.policies`` to whole stretches of them (DESIGN §9).

Pure; it lists only the instants that run.

Instants come as timetables, cut where a firing has its record already. The newest firings that the policy lets run are
kept in a *tail* until all missed firings are known. So only a tail is ever held, however long an outage was.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from jobs.core.calendar.timetable import Timetable
from jobs.core.instants import TICK
from jobs.core.policies import end_of_missed, most_to_run


class Stretch(NamedTuple):
    """The instants of ``times`` from number ``start`` to before number ``end``; at least one."""

    times: Timetable
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def first(self) -> datetime:
        return self.times.nth(self.start)

    @property
    def last(self) -> datetime:
        return self.times.nth(self.end - 1)

    def before(self, moment: datetime) -> int:
        """How many of them are earlier than ``moment``."""
        return max(0, min(self.times.rank(moment - TICK), self.end) - self.start)

    def instants(self) -> Iterator[datetime]:
        return map(self.times.nth, range(self.start, self.end))


class Decided(NamedTuple):
    """``ended``: stretches by reason, the oldest first. ``tail``: newer instants; they run unless pushed out later."""

    ended: dict[str, list[Stretch]]
    tail: list[datetime]

    @property
    def skipped(self) -> int:
        return sum(stretch.length for stretches in self.ended.values() for stretch in stretches)


def between(times: Timetable, recorded: Sequence[datetime]) -> list[Stretch]:
    """The parts of ``times`` between the moments of ``recorded``, without these moments; both ascending."""
    found: list[Stretch] = []
    start = 0
    for moment in recorded:
        behind = times.rank(moment)
        end = behind - 1 if behind and times.nth(behind - 1) == moment else behind
        if end > start:
            found.append(Stretch(times, start, end))
        start = max(start, behind)
    if len(times) > start:
        found.append(Stretch(times, start, len(times)))
    return found


def decide(missed: Sequence[Stretch], *, policy: str, max_catchup: int, window_start: datetime) -> Decided:
    """Ask the policy once for each part: firings before the window, firings with enough newer ones, and the rest."""
    count = sum(stretch.length for stretch in missed)
    old = sum(stretch.before(window_start) for stretch in missed)
    surplus = max(0, count - most_to_run(policy, max_catchup=max_catchup))
    ended: defaultdict[str, list[Stretch]] = defaultdict(list)
    tail: list[datetime] = []
    rest: Sequence[Stretch] = missed
    for start, end in pairwise(sorted({0, old, surplus, count})):
        part, rest = _parted(rest, end - start)
        decision = end_of_missed(policy, too_old=end <= old, passed_over=end <= surplus)
        if decision is None:
            tail += [at for stretch in part for at in stretch.instants()]
        else:
            ended[str(decision)] += part
    return Decided(dict(ended), tail)


def _parted(stretches: Sequence[Stretch], count: int) -> tuple[list[Stretch], list[Stretch]]:
    """The first ``count`` instants of ``stretches``, and the others."""
    first: list[Stretch] = []
    others: list[Stretch] = []
    for times, start, end in stretches:
        cut = min(end, start + count)
        if cut > start:
            first.append(Stretch(times, start, cut))
        if end > cut:
            others.append(Stretch(times, cut, end))
        count -= cut - start
    return first, others


def runs(stretches: Iterable[Stretch], recorded: Sequence[datetime]) -> list[tuple[datetime, datetime, int]]:
    """(first, last, count) of ``stretches``, joined where no moment of ``recorded`` lies between two."""
    found: list[tuple[datetime, datetime, int]] = []
    for stretch in stretches:
        first, last, count = stretch.first, stretch.last, stretch.length
        if found and bisect_right(recorded, found[-1][1]) == bisect_right(recorded, first):
            first, count = found[-1][0], found.pop()[2] + count
        found.append((first, last, count))
    return found

"""What becomes of missed firings: the table of DESIGN §9. Pure, and it lists no instants but those that run.

Instants come as timetables, cut where a firing has its record already. The newest that the policy lets run are carried
on in a *tail* until all are known, so that however long an outage was, no more than a tail is ever held.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from jobs.core.calendar.timetable import Timetable
from jobs.core.policies import MisfirePolicy

_TICK = timedelta(microseconds=1)


class Stretch(NamedTuple):
    """The instants of ``times`` from number ``start`` to before number ``end``; never none."""

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
        return max(0, min(self.times.rank(moment - _TICK), self.end) - self.start)

    def instants(self) -> Iterator[datetime]:
        return map(self.times.nth, range(self.start, self.end))


class Decided(NamedTuple):
    """``misfired`` are older than ``passed_over``; ``tail`` is newer than both, and runs unless pushed out later."""

    misfired: list[Stretch]
    passed_over: list[Stretch]
    tail: list[datetime]


def most_to_run(policy: str, *, max_catchup: int) -> int:
    """How many missed firings the policy lets run; ``fire_all`` runs every one and is not asked."""
    return {MisfirePolicy.SKIP: 0, MisfirePolicy.FIRE_ONCE: 1, MisfirePolicy.BACKFILL: max_catchup}[
        MisfirePolicy(policy)
    ]


def reason_within_window(policy: str) -> str:
    """Why a firing does not run that the catch-up window would have let run."""
    return "coalesced" if policy == MisfirePolicy.FIRE_ONCE else "misfire"


def between(times: Timetable, recorded: Sequence[datetime]) -> list[Stretch]:
    """The parts of ``times`` that no moment of ``recorded`` lies within, nor in; both ascending."""
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


def decide(missed: Sequence[Stretch], *, keep: int, window_start: datetime, last: bool) -> Decided:
    """Carry the newest ``keep`` on; once the ``last`` are among them, drop those older than the window as well."""
    cut = max(0, sum(stretch.length for stretch in missed) - keep)
    old = sum(stretch.before(window_start) for stretch in missed)
    if last:
        cut = max(cut, old)
    skipped, kept = _parted(missed, cut)
    misfired, passed_over = _parted(skipped, min(old, cut))
    return Decided(misfired, passed_over, [at for stretch in kept for at in stretch.instants()])


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

"""How often a schedule fires in a stretch of time, and when for the n-th time, without walking its instants.

The instants are those of ``fire_times``. To count a year of them costs as much as to count a day. The firings of an
interval are counted by division. The firings of cron are days multiplied by times of day, wherever no clock changes.
The hours around a change, where DESIGN §9 decides, are taken from ``each_fire_time`` one by one. The days of a year and
the hours around a change are kept, in bounded numbers, for every stretch and every job with the same expression and
zone.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate

from jobs.core.calendar.clock_changes import clock_changes, offset_at
from jobs.core.cron import WallTimes
from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.instants import TICK
from jobs.core.policies import DstPolicy
from jobs.core.schedule import Schedule, ScheduleType, each_fire_time, expression_of, within_bounds
from jobs.core.timezones import load_zone

#: No change of clocks since 2000 moved them further; Apia's went over the date line.
_FURTHEST_MOVE = timedelta(days=1)


class Timetable(ABC):
    """Ascending instants in UTC that can be counted and picked."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rank(self, moment: datetime) -> int:
        """How many of the instants are not later than ``moment``."""

    @abstractmethod
    def nth(self, index: int) -> datetime:
        """The instant that has ``index`` instants before it."""

    def names(self, moment: datetime) -> bool:
        """Whether ``moment`` is one of the instants."""
        rank = self.rank(moment)
        return rank > 0 and self.nth(rank - 1) == moment


def timetable(schedule: Schedule, *, after: datetime, until: datetime) -> Timetable:
    """The instants of ``schedule`` with ``after < t <= until``, as ``fire_times`` has them; raises as it does."""
    after, until = within_bounds(schedule, after=after, until=until)
    if after >= until:
        return Listed(())
    after, until = after.astimezone(UTC), until.astimezone(UTC)
    if schedule.type == ScheduleType.INTERVAL and schedule.every is not None:
        first = next(each_fire_time(schedule, after=after, until=until), None)
        return Listed(()) if first is None else _Steps(first, schedule.every, until)
    if schedule.type != ScheduleType.CRON or schedule.cron is None:
        return Listed(tuple(each_fire_time(schedule, after=after, until=until)))
    try:
        parts = list(_cron_parts(schedule, after, until))
    except (InvalidInput, ValueError, OverflowError) as error:
        raise ScheduleError(f"The schedule can no longer be computed: {error}") from error
    return parts[0] if len(parts) == 1 else _Joined(parts)


class Listed(Timetable):
    """Instants written out."""

    def __init__(self, instants: Sequence[datetime]) -> None:
        self._instants = instants

    def __len__(self) -> int:
        return len(self._instants)

    def rank(self, moment: datetime) -> int:
        return bisect_right(self._instants, moment)

    def nth(self, index: int) -> datetime:
        return self._instants[index]


class _Steps(Timetable):
    """``first`` and every ``every`` from there to ``until``."""

    def __init__(self, first: datetime, every: timedelta, until: datetime) -> None:
        self._first, self._every = first, every
        self._count = (until - first) // every + 1

    def __len__(self) -> int:
        return self._count

    def rank(self, moment: datetime) -> int:
        return max(0, min((moment - self._first) // self._every + 1, self._count))

    def nth(self, index: int) -> datetime:
        return self._first + index * self._every


class _Calm(Timetable):
    """The instants that cron names from ``after`` (exclusive) to ``until``, with one offset from UTC all along."""

    def __init__(self, walls: WallTimes, offset: timedelta, after: datetime, until: datetime) -> None:
        self._walls, self._offset = walls, offset
        self._after, self._until = after, until
        self._before = walls.rank(after + offset)
        self._count = walls.rank(until + offset) - self._before

    def __len__(self) -> int:
        return self._count

    def rank(self, moment: datetime) -> int:
        if moment <= self._after:
            return 0
        if moment >= self._until:
            return self._count
        return self._walls.rank(moment.astimezone(UTC) + self._offset) - self._before

    def nth(self, index: int) -> datetime:
        return (self._walls.nth(self._before + index) - self._offset).replace(tzinfo=UTC)


class _Joined(Timetable):
    """Timetables one after another, none of them empty."""

    def __init__(self, parts: Sequence[Timetable]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._lasts = [part.nth(len(part) - 1) for part in self._parts]
        self._before = list(accumulate(map(len, self._parts), initial=0))

    def __len__(self) -> int:
        return self._before[-1]

    def rank(self, moment: datetime) -> int:
        index = bisect_left(self._lasts, moment)
        return self._before[index] + (self._parts[index].rank(moment) if index < len(self._parts) else 0)

    def nth(self, index: int) -> datetime:
        part = bisect_right(self._before, index) - 1
        return self._parts[part].nth(index - self._before[part])


def _cron_parts(schedule: Schedule, after: datetime, until: datetime) -> Iterator[Timetable]:
    """The stretch cut where clocks change; at least one part."""
    zone, _ = load_zone(schedule.timezone), DstPolicy(schedule.dst_policy)
    first, last = after.astimezone(zone), until.astimezone(zone)
    walls = WallTimes(expression_of(schedule), first_year=first.year, last_year=last.year)
    unbounded = replace(schedule, anchor=None, starts_at=None, ends_at=None)
    reach = 2 * _FURTHEST_MOVE
    for change in clock_changes(schedule.timezone, after=after - reach, until=until + reach):
        # Within the time by which clocks move at a change, a wall-clock time may be missing or come twice.
        moved = abs(change.later - change.before)
        before, behind = change.at - moved - TICK, change.at + moved
        start, end = (min(max(edge, after), until) for edge in (before, behind))
        if after < start:
            yield _Calm(walls, offset_at(start, zone), after, start)
        if start < end:
            around = _around_change(unbounded, before, behind)
            yield Listed(around[bisect_right(around, start) : bisect_right(around, end)])
        after = end
    if after < until:
        yield _Calm(walls, offset_at(until, zone), after, until)


@lru_cache(maxsize=512)
def _around_change(schedule: Schedule, after: datetime, until: datetime) -> tuple[datetime, ...]:
    return tuple(each_fire_time(schedule, after=after, until=until))

"""Schedules: the instants at which a job fires (DESIGN §9).

Pure arithmetic: the caller brings the time, nothing here reads a clock. Fire times are always strictly increasing
UTC instants, and lie within ``[starts_at, ends_at]`` and the years 2000 to 2100. A stretch of time has the same
instants, asked for in one piece or in many. So a restart can neither lose nor double one.

Cron expressions name wall-clock times. Where clocks change, a wall-clock time may be missing or come twice, and
the table of DESIGN §9 decides. A stored schedule that can no longer be computed raises ``ScheduleError``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from jobs.core.calendar.occurrences import Fate, occurrences
from jobs.core.cron import CronExpression, parse_cron
from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.instants import EARLIEST, LATEST, TICK
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.timezones import load_zone

MIN_INTERVAL = timedelta(seconds=1)


class ScheduleType(StrEnum):
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    IMMEDIATE = "immediate"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job fires. Every datetime is aware; equal schedules fire at equal times.

    ``cron``, ``cron_dialect``, ``timezone`` (IANA) and ``dst_policy`` belong to cron, ``every`` to interval,
    ``run_at`` to once. ``anchor`` is the instant the job was created: an interval counts from it unless there is a
    ``starts_at``, and an immediate job fires at it.
    """

    type: ScheduleType
    cron: str | None = None
    timezone: str = "UTC"
    every: timedelta | None = None
    run_at: datetime | None = None
    anchor: datetime | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    dst_policy: str = DstPolicy.VIXIE.value
    cron_dialect: str = CronDialect.UNIX.value


def fire_times(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The first ``limit`` instants t in UTC at which ``schedule`` fires, ``after < t <= until``, ascending.

    An interval fires at ``starts_at`` and every ``every`` from there; without a ``starts_at`` its first
    firing is one interval after ``anchor``, because a job just created has not asked to run at once. An
    immediate job fires at ``anchor``, so its creator asks with ``after`` a microsecond before. Raises
    ``ScheduleError`` when the schedule can no longer be computed.
    """
    return list(islice(each_fire_time(schedule, after=after, until=until), limit))


def each_fire_time(schedule: Schedule, *, after: datetime, until: datetime) -> Iterator[datetime]:
    """``fire_times`` one by one, for a caller that knows when to stop; raises while it is iterated."""
    after, until = within_bounds(schedule, after=after, until=until)
    if after >= until:
        return
    try:
        yield from _firings(schedule, after.astimezone(UTC), until.astimezone(UTC))
    except (InvalidInput, ValueError, OverflowError) as error:
        raise ScheduleError(f"The schedule can no longer be computed: {error}") from error


def next_fire(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first instant at which ``schedule`` fires after ``after``, or None. Raises as ``fire_times``.

    Callers ask again and again before it fires, as who watches a list of jobs does; the last answer is kept.
    """
    last = _last_of(schedule)
    if last.stretch is not None:
        since, until = last.stretch
        if since <= after and (until is None or after < until):
            return until
    found = next(each_fire_time(schedule, after=after, until=LATEST), None)
    last.stretch = after, found
    return found


@dataclass(slots=True)
class _Last:
    """The last answer of ``next_fire``: from the first instant on, and before the second, it is the second."""

    stretch: tuple[datetime, datetime | None] | None = None


@lru_cache(maxsize=8192)
def _last_of(schedule: Schedule) -> _Last:
    return _Last()


def jitter_offset(seed: int, jitter: timedelta) -> timedelta:
    """The stable part of ``jitter`` that belongs to a job, by its id: the same job keeps its offset (DESIGN §8)."""
    if not jitter:
        return jitter
    span = jitter // timedelta(milliseconds=1)
    # The low half of a UUIDv7 is random; the high half is time and would give neighbours the same offset.
    return timedelta(milliseconds=(seed & 0xFFFFFFFFFFFFFFFF) % span) if span else timedelta()


def expression_of(schedule: Schedule) -> CronExpression:
    """The parsed expression of a cron schedule. Raises ``ScheduleError`` when it is not, or no longer, acceptable."""
    try:
        return parse_cron(schedule.cron or "", schedule.cron_dialect)
    except (InvalidInput, ValueError) as error:
        raise ScheduleError(f"The schedule can no longer be computed: {error}") from error


def within_bounds(schedule: Schedule, *, after: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The stretch ``after < t <= until``, cut to the schedule's own bounds and to the years 2000 to 2100."""
    after = max(after, (schedule.starts_at or EARLIEST) - TICK, EARLIEST - TICK)
    return after, min(until, schedule.ends_at or LATEST, LATEST)


def _firings(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The instants of the schedule with ``after < t <= until``, both already within its bounds."""
    if schedule.type == ScheduleType.CRON and schedule.cron is not None:
        zone, policy = load_zone(schedule.timezone), DstPolicy(schedule.dst_policy)
        return _cron_firings(expression_of(schedule), zone, policy, after, until)
    if schedule.type == ScheduleType.INTERVAL and schedule.every is not None:
        if schedule.starts_at is not None:
            return _interval_firings(schedule.starts_at, schedule.every, 0, after, until)
        if schedule.anchor is not None:
            return _interval_firings(schedule.anchor, schedule.every, 1, after, until)
    instant = schedule.anchor if schedule.type == ScheduleType.IMMEDIATE else schedule.run_at
    if schedule.type not in (ScheduleType.ONCE, ScheduleType.IMMEDIATE) or instant is None:
        raise ScheduleError(
            f"A schedule of type {schedule.type} lacks the times it is made of; edit the job."
        )
    if schedule.type == ScheduleType.IMMEDIATE and schedule.starts_at is not None:
        instant = max(instant, schedule.starts_at)
    return iter([instant.astimezone(UTC)] if after < instant <= until else [])


def _interval_firings(
    base: datetime, every: timedelta, first: int, after: datetime, until: datetime
) -> Iterator[datetime]:
    """``base + k * every`` for k >= ``first``, in whole microseconds: no drift, and no loop from the base."""
    if every < MIN_INTERVAL:
        raise ScheduleError(f"An interval of {every} is shorter than a second; edit the job.")
    base = base.astimezone(UTC)
    instant = base + max(first, (after - base) // every + 1) * every
    while instant <= until:
        yield instant
        instant += every


def _cron_firings(
    expression: CronExpression, zone: ZoneInfo, policy: DstPolicy, after: datetime, until: datetime
) -> Iterator[datetime]:
    last = after
    for occurrence in occurrences(expression, zone, policy, after=after, until=until):
        # Several wall-clock times of a gap share the instant at which it ends.
        if occurrence.fate is not Fate.LEFT_OUT and occurrence.at > last:
            last = occurrence.at
            yield last

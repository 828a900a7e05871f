"""Schedules: the instants at which a job is to fire (DESIGN §9).

Pure arithmetic: the caller brings the time, nothing here reads a clock. It keeps true that fire times are
strictly increasing UTC instants, never outside ``[starts_at, ends_at]`` nor the years 2000 to 2100, and that
asking for a stretch of time in one piece or in many gives the same instants, so a restart can neither lose
nor double one.

Cron expressions name wall-clock times; where clocks change, a wall-clock time may be missing or come twice,
and the table of DESIGN §9 decides. A stored schedule that can no longer be computed raises ``ScheduleError``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

from jobs.core.calendar.occurrences import Fate, occurrences
from jobs.core.cron import CronExpression, parse_cron
from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.timezones import canonical_timezone, load_zone

#: Every instant Carillon accepts or makes lies in here, as the tables' CHECKs demand.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)
SHORTEST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(days=366)
_TICK = timedelta(microseconds=1)


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
    """``fire_times`` one by one, for a caller that knows when to stop; raises when it is gone through."""
    after, until = within_bounds(schedule, after=after, until=until)
    if after >= until:
        return
    try:
        yield from _firings(schedule, after.astimezone(UTC), until.astimezone(UTC))
    except (InvalidInput, ValueError, OverflowError) as error:
        raise ScheduleError(f"The schedule can no longer be computed: {error}") from error


def next_fire(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first instant at which ``schedule`` fires after ``after``, or None. Raises as ``fire_times``."""
    return next(each_fire_time(schedule, after=after, until=LATEST), None)


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
    """The stretch ``after < t <= until`` as far as the schedule's own bounds and the years 2000 to 2100 let it be."""
    after = max(after, (schedule.starts_at or EARLIEST) - _TICK, EARLIEST - _TICK)
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
    if every < SHORTEST_INTERVAL:
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
        # Several wall-clock times of a gap share the instant it ends at.
        if occurrence.fate is not Fate.LEFT_OUT and occurrence.at > last:
            last = occurrence.at
            yield last


#: The field of the API each type is made of; the others must be absent.
_MADE_OF = {
    ScheduleType.CRON: "cron",
    ScheduleType.INTERVAL: "every_seconds",
    ScheduleType.ONCE: "run_at",
    ScheduleType.IMMEDIATE: None,
}


def validate(schedule: Schedule) -> None:
    """Refuse a schedule that is malformed, ambiguous or can never fire.

    Raises ``InvalidInput`` with every fault found, under the API's names: ``cron``, ``timezone``,
    ``every_seconds``, ``run_at``, ``starts_at``, ``ends_at``, ``dst_policy``, ``cron_dialect``.
    Whether ``run_at`` is past is the caller's to ask, of the database's clock.
    """
    errors: dict[str, list[str]] = {}
    for check in (_check_parts, _check_cron, _check_interval, _check_times):
        try:
            check(schedule)
        except InvalidInput as error:
            errors |= {name: messages for name, messages in error.errors.items() if name not in errors}
    if errors:
        raise InvalidInput(errors)
    _check_fires(schedule)


def _check_parts(schedule: Schedule) -> None:
    """Exactly the field its type is made of is given."""
    given = {"cron": schedule.cron, "every_seconds": schedule.every, "run_at": schedule.run_at}
    needed = _MADE_OF[schedule.type]
    errors = {
        name: f"Does not belong to a schedule of type {schedule.type}; leave it out or change the type."
        for name, value in given.items()
        if name != needed and value is not None
    }
    if needed is not None and given[needed] is None:
        errors[needed] = f"A schedule of type {schedule.type} needs it."
    if errors:
        raise InvalidInput(errors)


def _check_cron(schedule: Schedule) -> None:
    errors: dict[str, list[str]] = {}
    if schedule.dst_policy not in list(DstPolicy):
        errors["dst_policy"] = [f"Must be one of {', '.join(DstPolicy)}."]
    try:
        canonical_timezone(schedule.timezone)
    except InvalidInput as error:
        errors |= error.errors
    if schedule.cron_dialect not in list(CronDialect):
        errors["cron_dialect"] = [f"Must be one of {', '.join(CronDialect)}."]
    elif schedule.cron is not None:
        try:
            parse_cron(schedule.cron, schedule.cron_dialect)
        except InvalidInput as error:
            errors |= error.errors
    if errors:
        raise InvalidInput(errors)


def _check_interval(schedule: Schedule) -> None:
    if schedule.every is not None and not SHORTEST_INTERVAL <= schedule.every <= LONGEST_INTERVAL:
        longest = int(LONGEST_INTERVAL.total_seconds())
        raise InvalidInput({"every_seconds": f"Must be from 1 to {longest} seconds (366 days)."})


def _check_times(schedule: Schedule) -> None:
    times = {"run_at": schedule.run_at, "starts_at": schedule.starts_at, "ends_at": schedule.ends_at}
    errors = {}
    for name, value in times.items():
        if value is not None and value.utcoffset() is None:
            errors[name] = "Has no offset from UTC; write it like 2030-01-31T02:00:00Z."
        elif value is not None and not EARLIEST <= value <= LATEST:
            errors[name] = "Must lie between 2000-01-01 and 2100-01-01."
    if errors:
        raise InvalidInput(errors)
    run_at, starts_at, ends_at = times.values()
    if starts_at is not None and ends_at is not None and starts_at >= ends_at:
        raise InvalidInput({"ends_at": "Must be later than starts_at."})
    if run_at is not None and not (starts_at or EARLIEST) <= run_at <= (ends_at or LATEST):
        raise InvalidInput({"run_at": "Must lie between starts_at and ends_at, or it never fires."})


def _check_fires(schedule: Schedule) -> None:
    """A cron schedule with a fixed window names at least one instant in it."""
    if schedule.type != ScheduleType.CRON or schedule.starts_at is None or schedule.ends_at is None:
        return
    if next_fire(schedule, after=schedule.starts_at - _TICK) is None:
        raise InvalidInput(
            {"ends_at": "The expression names no time between starts_at and ends_at; move one of them."}
        )

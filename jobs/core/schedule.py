"""Schedules: the instants at which a job is to fire (DESIGN §9).

Pure arithmetic: the caller brings the time, nothing here reads a clock. It keeps true that fire times are
strictly increasing UTC instants, never outside ``[starts_at, ends_at]`` nor the years 2000 to 2100, and that
asking for a stretch of time in one piece or in many gives the same instants, so a restart can neither lose
nor double one.

Cron expressions name wall-clock times; where clocks change, a wall-clock time may be missing or come twice,
and the table of DESIGN §9 decides. A stored schedule that can no longer be computed raises ``ScheduleError``.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo

from jobs.core.cron import CronExpression, parse_cron
from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.policies import DstPolicy
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

    ``cron`` and ``timezone`` (IANA) belong to cron, ``every`` to interval, ``run_at`` to once. ``anchor`` is
    the instant the job was created: an interval counts from it unless there is a ``starts_at``, and an
    immediate job fires at it.
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


def fire_times(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The first ``limit`` instants t in UTC at which ``schedule`` fires, ``after < t <= until``, ascending.

    An interval fires at ``starts_at`` and every ``every`` from there; without a ``starts_at`` its first
    firing is one interval after ``anchor``, because a job just created has not asked to run at once. An
    immediate job fires at ``anchor``, so its creator asks with ``after`` a microsecond before. Raises
    ``ScheduleError`` when the schedule can no longer be computed.
    """
    after = max(after, (schedule.starts_at or EARLIEST) - _TICK, EARLIEST - _TICK)
    until = min(until, schedule.ends_at or LATEST, LATEST)
    if after >= until:
        return []
    try:
        return list(islice(_firings(schedule, after.astimezone(UTC), until.astimezone(UTC)), limit))
    except (InvalidInput, ValueError, OverflowError) as error:
        raise ScheduleError(f"The schedule can no longer be computed: {error}") from error


def next_fire(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first instant at which ``schedule`` fires after ``after``, or None. Raises as ``fire_times``."""
    return next(iter(fire_times(schedule, after=after, until=LATEST, limit=1)), None)


def _firings(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The instants of the schedule with ``after < t <= until``, both already within its bounds."""
    if schedule.type == ScheduleType.CRON and schedule.cron is not None:
        zone, expression = load_zone(schedule.timezone), parse_cron(schedule.cron)
        return _cron_firings(expression, zone, DstPolicy(schedule.dst_policy), after, until)
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
    in_gaps = not expression.wildcard and policy is not DstPolicy.SKIP
    in_both_passes = expression.wildcard or policy is DstPolicy.BOTH
    local = after.astimezone(zone)
    start = local.replace(tzinfo=None)
    if in_both_passes:
        # Inside an overlap, wall-clock times before this one are still to come in the second pass.
        start -= max(_offset(start, zone, fold=0) - _offset(start, zone, fold=1), timedelta(0))
    last = after
    for instant in _instants(expression.walls(after=start), zone, in_gaps, in_both_passes):
        if instant > until:
            return
        if instant > last:
            yield instant
            last = instant


def _instants(
    walls: Iterator[datetime], zone: ZoneInfo, in_gaps: bool, in_both_passes: bool
) -> Iterator[datetime]:
    """Map ascending wall-clock times to instants in UTC that never decrease; a gap gives equal ones.

    Second passes of an overlap are held back until its first pass is over.
    """
    second_passes: deque[datetime] = deque()
    for wall in walls:
        before, later = _offset(wall, zone, fold=0), _offset(wall, zone, fold=1)
        instant = (wall - before).replace(tzinfo=UTC)
        if before < later:
            if not in_gaps:
                continue
            instant = _change_between(instant - (later - before), instant, zone)
        while second_passes and second_passes[0] <= instant:
            yield second_passes.popleft()
        yield instant
        if before > later and in_both_passes:
            second_passes.append(instant + (before - later))
    yield from second_passes


def _offset(wall: datetime, zone: ZoneInfo, *, fold: int) -> timedelta:
    """UTC offset of a naive wall-clock time; where clocks change, fold 0 gives the one before (PEP 495)."""
    offset = zone.utcoffset(wall.replace(tzinfo=zone, fold=fold))
    assert offset is not None
    return offset


def _change_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The instant, to the second, at which ``before``'s offset gives way to ``after``'s, by bisection."""
    old = before.astimezone(zone).utcoffset()
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


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
    ``every_seconds``, ``run_at``, ``starts_at``, ``ends_at``, ``dst_policy``. Whether ``run_at`` is past is
    the caller's to ask, of the database's clock.
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
    try:
        parse_cron(schedule.cron or "@daily")
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

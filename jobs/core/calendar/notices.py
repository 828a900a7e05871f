"""A notice ahead of time: the next firing of a job that a change of clocks moves, doubles or prevents.

It is cheap enough for every job's representation: the changes of a zone are cached by year. The calendar is walked
only a few steps, and only for a change that lies ahead.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile

from jobs.core.calendar.clock_changes import ClockChange, clock_changes
from jobs.core.calendar.notes import gap_note, overlap_note
from jobs.core.calendar.occurrences import Fate, fires_in_both_passes, fires_in_gaps
from jobs.core.cron import CronExpression
from jobs.core.instants import TICK
from jobs.core.policies import DstPolicy
from jobs.core.schedule import Schedule, ScheduleType, expression_of, within_bounds
from jobs.core.timezones import load_zone

AHEAD = timedelta(days=30)
#: No zone has put its clocks back by more than this since 2000.
_MAX_OVERLAP = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Notice:
    """``at`` (UTC): the instant of the firing; if it is left out, the instant at which clocks leap over its time.

    ``local`` is the same in the schedule's zone; ``note`` says what happens.
    """

    at: datetime
    local: datetime
    note: str


def next_clock_change_notice(
    schedule: Schedule, *, now: datetime, within: timedelta = AHEAD
) -> Notice | None:
    """The next firing after ``now``, at most ``within`` later, that a change of clocks affects; None without one.

    A wildcard schedule is affected only where its rhythm breaks: "every hour" stays every hour when clocks change.
    Raises ``ScheduleError`` when the schedule can no longer be computed.
    """
    if schedule.type != ScheduleType.CRON:
        return None
    after, until = within_bounds(schedule, after=now, until=now + within)
    after, until = after.astimezone(UTC), until.astimezone(UTC)
    # A first pass comes before its change, a second pass after it.
    changes = clock_changes(schedule.timezone, after=after - _MAX_OVERLAP, until=until + _MAX_OVERLAP)
    for change in changes:
        found = _effect(schedule, change, after)
        if found is not None:
            at, note = found
            return Notice(at, at.astimezone(load_zone(schedule.timezone)), note) if at <= until else None
    return None


def _effect(schedule: Schedule, change: ClockChange, after: datetime) -> tuple[datetime, str] | None:
    expression, policy = expression_of(schedule), DstPolicy(schedule.dst_policy)
    start, end = change.walls
    if expression.wildcard and not _breaks_rhythm(expression, start, end):
        return None
    if change.is_gap:
        fires = fires_in_gaps(expression, policy)
        return _effect_of_gap(expression, change, fires=fires) if change.at > after else None
    return _effect_of_overlap(expression, change, after, twice=fires_in_both_passes(expression, policy))


def _effect_of_gap(
    expression: CronExpression, change: ClockChange, *, fires: bool
) -> tuple[datetime, str] | None:
    start, end = change.walls
    missing = list(islice(takewhile(lambda wall: wall < end, expression.walls(after=start - TICK)), 2))
    if not missing:
        return None
    return change.at, gap_note(missing[0], ends=end, several=len(missing) > 1, fires=fires)


def _effect_of_overlap(
    expression: CronExpression, change: ClockChange, after: datetime, *, twice: bool
) -> tuple[datetime, str] | None:
    start, end = change.walls
    passes = [(Fate.FIRST_PASS, change.before), (Fate.SECOND_PASS, change.later)]
    for fate, offset in passes if twice else passes[:1]:
        wall_after = (after + offset).replace(tzinfo=None)
        wall = next(expression.walls(after=max(start - TICK, wall_after)), None)
        if wall is not None and wall < end:
            return (wall - offset).replace(tzinfo=UTC), overlap_note(wall, fate, twice=twice)
    return None


@lru_cache(maxsize=1024)
def _breaks_rhythm(expression: CronExpression, start: datetime, end: datetime) -> bool:
    """Whether the stretch that is missing or comes twice differs from the equally long one after it."""
    length = end - start
    shifted = [wall + length for wall in _minutes(expression, start, end)]
    return shifted != _minutes(expression, end, end + length)


def _minutes(expression: CronExpression, start: datetime, end: datetime) -> list[datetime]:
    """The first wall-clock time of each minute; all clocks change by whole minutes."""
    found: list[datetime] = []
    cursor = start - TICK
    while (wall := next(expression.walls(after=cursor), end)) < end:
        found.append(wall)
        cursor = wall.replace(second=59)
    return found

"""Wall-clock times to instants: the table of DESIGN §9 for where clocks change.

A wall-clock time usually happens once. In a spring gap it does not happen: a fixed schedule fires when the gap ends,
a wildcard schedule or one under ``skip`` leaves it out. In an autumn overlap it happens twice: a wildcard schedule
or one under ``both`` fires in both passes, any other in the first.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobs.core.calendar.clock_changes import change_between
from jobs.core.cron import CronExpression
from jobs.core.policies import DstPolicy


class Fate(Enum):
    """How clocks treat a wall-clock time."""

    PLAIN = auto()
    #: In a gap: fires at the instant the gap ends.
    MOVED = auto()
    #: In a gap: does not fire; its ``at`` is the instant the gap ends.
    LEFT_OUT = auto()
    FIRST_PASS = auto()
    SECOND_PASS = auto()


class Occurrence(NamedTuple):
    """A naive wall-clock time, the instant in UTC it falls on, and why there."""

    at: datetime
    wall: datetime
    fate: Fate


def fires_in_gaps(expression: CronExpression, policy: DstPolicy) -> bool:
    """Whether a wall-clock time that does not exist fires when the gap ends."""
    return not expression.wildcard and policy is not DstPolicy.SKIP


def fires_in_both_passes(expression: CronExpression, policy: DstPolicy) -> bool:
    """Whether a wall-clock time that happens twice fires twice."""
    return expression.wildcard or policy is DstPolicy.BOTH


def occurrences(
    expression: CronExpression, zone: ZoneInfo, policy: DstPolicy, *, after: datetime, until: datetime
) -> Iterator[Occurrence]:
    """The occurrences of the wall-clock times of ``expression``, ``after < at <= until``, in order of ``at``.

    Several occurrences of one gap have the same ``at``.
    """
    twice = fires_in_both_passes(expression, policy)
    start = after.astimezone(zone).replace(tzinfo=None)
    if twice:
        # Inside an overlap, wall-clock times before this one are still to come in the second pass.
        start -= max(_offset(start, zone, fold=0) - _offset(start, zone, fold=1), timedelta(0))
    in_gap = Fate.MOVED if fires_in_gaps(expression, policy) else Fate.LEFT_OUT
    for occurrence in _mapped(expression.walls(after=start), zone, in_gap, twice):
        if occurrence.at > until:
            return
        if occurrence.at > after:
            yield occurrence


def _mapped(walls: Iterator[datetime], zone: ZoneInfo, in_gap: Fate, twice: bool) -> Iterator[Occurrence]:
    """Second passes of an overlap are held back until its first pass is over."""
    second_passes: deque[Occurrence] = deque()
    for wall in walls:
        before, later = _offset(wall, zone, fold=0), _offset(wall, zone, fold=1)
        at, fate = (wall - before).replace(tzinfo=UTC), Fate.PLAIN
        if before < later:
            at, fate = change_between(at - (later - before), at, zone), in_gap
        elif before > later:
            fate = Fate.FIRST_PASS
        while second_passes and second_passes[0].at <= at:
            yield second_passes.popleft()
        yield Occurrence(at, wall, fate)
        if twice and fate is Fate.FIRST_PASS:
            second_passes.append(Occurrence(at + (before - later), wall, Fate.SECOND_PASS))
    yield from second_passes


def _offset(wall: datetime, zone: ZoneInfo, *, fold: int) -> timedelta:
    """UTC offset of a naive wall-clock time; where clocks change, fold 0 gives the one before (PEP 495)."""
    offset = zone.utcoffset(wall.replace(tzinfo=zone, fold=fold))
    assert offset is not None
    return offset

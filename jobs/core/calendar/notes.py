"""Fire times, each with a note if a change of clocks affects it, for previews."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import attrgetter
from zoneinfo import ZoneInfo

from jobs.core.calendar.occurrences import Fate, Occurrence, fires_in_both_passes, occurrences
from jobs.core.policies import DstPolicy
from jobs.core.schedule import Schedule, ScheduleType, each_fire_time, expression_of, within_bounds
from jobs.core.timezones import load_zone


@dataclass(frozen=True, slots=True)
class Firing:
    """An instant ``at`` in UTC, the same in the schedule's zone, and the naive wall-clock time the schedule named.

    ``note`` says how a change of clocks affects it; None when none does.
    """

    at: datetime
    local: datetime
    wall: datetime
    note: str | None = None


def explained_fire_times(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> list[Firing]:
    """The instants of ``fire_times`` for the same arguments, each with its explanation.

    The note on a wall-clock time that does not fire comes with the next firing. Raises as ``fire_times`` does.
    """
    zone = load_zone(schedule.timezone)
    if schedule.type != ScheduleType.CRON:
        instants = islice(each_fire_time(schedule, after=after, until=until), limit)
        return [_plain(instant, zone) for instant in instants]
    after, until = within_bounds(schedule, after=after, until=until)
    if after >= until:
        return []
    expression, policy = expression_of(schedule), DstPolicy(schedule.dst_policy)
    found = occurrences(expression, zone, policy, after=after.astimezone(UTC), until=until.astimezone(UTC))
    twice = fires_in_both_passes(expression, policy)
    return list(islice(_explained(found, zone, twice=twice), limit))


def gap_note(wall: datetime, *, ends: datetime, several: bool, fires: bool) -> str:
    """The note on a naive ``wall`` that does not exist: clocks leap to ``ends``. ``several``: the first of more."""
    then = _clock(ends) if ends.date() == wall.date() else f"{ends.date()} {_clock(ends)}"
    if several:
        subject = f"{_clock(wall)} and later times before {then} do not exist on {wall.date()}"
        return subject + (f"; fires once, at {then}" if fires else "; they do not fire")
    return f"{_clock(wall)} does not exist on {wall.date()}; " + (
        f"fires at {then}" if fires else "it does not fire"
    )


def overlap_note(wall: datetime, fate: Fate, *, twice: bool) -> str:
    """The note on a naive ``wall`` that happens twice; ``twice``: it also fires twice."""
    if not twice:
        return f"{_clock(wall)} happens twice; fires at the first"
    return f"{_clock(wall)} happens twice; {'first' if fate is Fate.FIRST_PASS else 'second'} pass"


def _plain(at: datetime, zone: ZoneInfo) -> Firing:
    local = at.astimezone(zone)
    return Firing(at, local, local.replace(tzinfo=None))


def _explained(found: Iterator[Occurrence], zone: ZoneInfo, *, twice: bool) -> Iterator[Firing]:
    """One firing for each instant, however many wall-clock times fall on it."""
    left_out: list[Occurrence] = []
    for at, group in groupby(found, key=attrgetter("at")):
        firing: list[Occurrence] = []
        for occurrence in group:
            (left_out if occurrence.fate is Fate.LEFT_OUT else firing).append(occurrence)
        if not firing:
            continue
        wall, fate, note = firing[0].wall, firing[0].fate, None
        if fate is Fate.MOVED:
            note = _gap_note(firing, zone)
        elif fate is not Fate.PLAIN:
            note = overlap_note(wall, fate, twice=twice)
        elif left_out:
            note = f"Before this, {_gap_note(left_out, zone)}"
        left_out.clear()
        yield Firing(at, at.astimezone(zone), wall, note)


def _gap_note(gap: list[Occurrence], zone: ZoneInfo) -> str:
    """The note on occurrences at the end of a gap; occurrences that are not in the gap are ignored."""
    missing = [occurrence for occurrence in gap if occurrence.fate in (Fate.MOVED, Fate.LEFT_OUT)]
    ends = missing[0].at.astimezone(zone).replace(tzinfo=None)
    fires = missing[0].fate is Fate.MOVED
    return gap_note(missing[0].wall, ends=ends, several=len(missing) > 1, fires=fires)


def _clock(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"

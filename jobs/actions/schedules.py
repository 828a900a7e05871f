"""Rules for a job's schedule (``jobs.shapes.schedule``) that need the database's clock, or the schedule before it.

No schedule may be created that never fires.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jobs.core import schedule as core
from jobs.core.errors import InvalidInput
from jobs.core.instants import instant_text
from jobs.core.schedule import Schedule, ScheduleType
from jobs.shapes.schedule import COMMON

#: How long ago a ``run_at`` may lie and still fire at once: the time a request may take, and clocks that differ.
LATE_ALLOWANCE = timedelta(seconds=60)


def first_firing(schedule: Schedule, *, now: datetime) -> datetime:
    """``first_instant`` of a schedule that has one at or after ``now`` (the database's). Raises ``InvalidInput``
    otherwise, naming the field that ended it.

    A ``run_at`` up to ``LATE_ALLOWANCE`` ago is let through: it fires at once.
    """
    first = first_instant(schedule, now=now)
    if first is not None:
        return first
    present = instant_text(now)
    if schedule.type is ScheduleType.ONCE:
        raise InvalidInput({"run_at": f"Lies in the past (now is {present}); give a future time."})
    field = "ends_at" if schedule.ends_at is not None else "starts_at"
    raise InvalidInput({field: f"Leaves no firing between now ({present}) and the year 2100; move it."})


def first_instant(schedule: Schedule, *, now: datetime) -> datetime | None:
    """The first firing of a schedule that begins at ``now``: strictly later than now, except that an immediate job
    fires at its anchor and a slightly past ``run_at`` still counts.
    """
    recurring = schedule.type in (ScheduleType.CRON, ScheduleType.INTERVAL)
    return core.next_fire(schedule, after=now if recurring else now - LATE_ALLOWANCE)


def merged(before: Mapping[str, Any], changes: object) -> object:
    """``changes`` over ``before`` as in a JSON merge patch; a change of type drops fields that only the old has."""
    if not isinstance(changes, dict):
        return changes
    if changes.get("type", before["type"]) != before["type"]:
        before = {name: value for name, value in before.items() if name in COMMON}
    return {**before, **changes}

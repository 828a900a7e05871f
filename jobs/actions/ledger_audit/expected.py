"""The instants that a job's timeline demands and allows, as pieces of time; one schedule governs each piece."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from jobs.actions.ledger_audit.findings import JobAudit
from jobs.actions.schedules import LATE_ALLOWANCE
from jobs.core.calendar.timetable import Listed, Timetable, timetable
from jobs.core.errors import ScheduleError
from jobs.core.instants import TICK
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus
from jobs.models import Job, JobVersion
from jobs.store.jobs import schedule_then
from tenants.models import Tenant

#: Nothing is materialized further ahead than this, under any settings.
FURTHEST_AHEAD = timedelta(hours=1)
_ONE_TIME = (ScheduleType.ONCE, ScheduleType.IMMEDIATE)


class Piece(NamedTuple):
    """The instants of ``times`` with ``after < t <= until``; those from ``optional_from`` on are only allowed."""

    after: datetime
    until: datetime
    optional_from: datetime
    times: Timetable


def expected(
    result: JobAudit, timeline: Sequence[JobVersion], *, since: datetime, until: datetime
) -> list[Piece]:
    """The pieces of the whole timeline from ``since`` to ``until``, ascending and apart from each other.

    If a schedule cannot be computed, there is no piece, and ``result.unproven`` says so.
    """
    pieces: list[Piece] = []
    for entry, after, end, optional_from in _spans(result.job, timeline, since, until):
        schedule = schedule_then(entry.schedule)
        try:
            piece = Piece(after, end, optional_from, timetable(schedule, after=after, until=end))
        except ScheduleError as error:
            result.unproven.append((after, end, str(error)))
            continue
        pieces = _joined(pieces, piece)
    return pieces


def _spans(
    job: Job, timeline: Sequence[JobVersion], since: datetime, until: datetime
) -> Iterator[tuple[JobVersion, datetime, datetime, datetime]]:
    """Entries of the timeline, the time they govern, ``after < t <= until``, and from when on they only allow."""
    waits = job.status == JobStatus.PAUSED or job.tenant.status == Tenant.Status.SUSPENDED
    present_pause = job.next_fire_at if waits else None
    for index, entry in enumerate(timeline):
        after, end, optional_from = entry.valid_from, until, present_pause or until + TICK
        if index + 1 < len(timeline):
            end = timeline[index + 1].valid_from
        if entry.status not in (JobStatus.ACTIVE, JobStatus.PAUSED):
            optional_from, end = after, min(end, after + FURTHEST_AHEAD)
        elif _begins_a_schedule(timeline, index):
            after -= LATE_ALLOWANCE
        after = max(after, since - TICK)
        if after < end:
            yield entry, after, end, optional_from


def _begins_a_schedule(timeline: Sequence[JobVersion], index: int) -> bool:
    """Whether a one-time schedule starts here: it may name a time just passed (``schedules.first_instant``)."""
    entry = timeline[index]
    one_time = entry.schedule["schedule_type"] in _ONE_TIME
    return one_time and (index == 0 or timeline[index - 1].schedule != entry.schedule)


def _joined(pieces: list[Piece], last: Piece) -> list[Piece]:
    """``pieces`` and ``last``, which reaches back over their end only when it is of a one-time schedule."""
    if not pieces or pieces[-1].until <= last.after:
        return [*pieces, last]
    if not len(last.times):
        return pieces
    at = last.times.nth(0)
    # It takes the place of the same instant of earlier schedules, if they name it; it demands no less than they do.
    alone = Piece(at - TICK, at, last.optional_from, Listed((at,)))
    before = [piece._replace(until=min(piece.until, alone.after)) for piece in pieces]
    behind = [piece._replace(after=max(piece.after, at)) for piece in pieces]
    return [piece for part in (before, [alone], behind) for piece in part if piece.after < piece.until]

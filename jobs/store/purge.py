"""Purge: old rows are deleted, a bounded number at a time. Partitions are dropped (``partitions``)."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from jobs.core.instants import EARLIEST
from jobs.models.fields import first_id_since
from jobs.store import db
from tenants.clock import database_now

_SQL = db.queries("purge")


class TimelineEntry(NamedTuple):
    """The entry that a walk over the timelines of jobs has reached."""

    job_id: UUID
    valid_from: datetime
    id: UUID


FIRST_ENTRY = TimelineEntry(UUID(int=0), EARLIEST, UUID(int=0))


def triggers(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` ended triggers older than ``retention``. Returns how many."""
    return _purge("triggers", retention, limit)


def catchups(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` catch-ups finished longer ago than ``retention``. Returns how many."""
    return _purge("catchups", retention, limit)


def ranges(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` ranges of skipped firings that end longer ago than ``retention``. Returns how many."""
    return _purge("ranges", retention, limit)


def effects(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` records of effects whose triggers are past ``retention`` and gone. Returns how many."""
    return len(_SQL["effects"](before_id=first_id_within(retention), limit=limit))


def versions(
    *, retention: timedelta, limit: int, after: TimelineEntry = FIRST_ENTRY
) -> tuple[TimelineEntry, int]:
    """Among the next ``limit`` entries of jobs' timelines, delete those that ended longer ago than ``retention``.

    Entries that an audit within the retention, or an unfinished catch-up, goes by are kept. Returns where to go on
    (``FIRST_ENTRY`` at the end of the walk) and how many were deleted.
    """
    rows = _SQL["versions"](
        after_job_id=after.job_id,
        after_valid_from=after.valid_from,
        after_id=after.id,
        retention=retention,
        limit=limit,
    )
    if not rows:
        return FIRST_ENTRY, 0
    [last] = rows
    on = TimelineEntry(last.job_id, last.valid_from, last.id) if last.looked_at == limit else FIRST_ENTRY
    return on, last.dropped


def _purge(query: str, retention: timedelta, limit: int) -> int:
    return len(_SQL[query](before_id=first_id_within(retention), retention=retention, limit=limit))


def first_id_within(retention: timedelta) -> UUID:
    """The smallest UUIDv7 that may have been made since the retention began."""
    return first_id_since(database_now() - retention)


def results(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` Celery results older than ``retention``. Returns how many."""
    return len(_SQL["results"](retention=retention, limit=limit))


def sessions(*, limit: int) -> int:
    """Delete up to ``limit`` sessions of browsers that are over. Returns how many."""
    return len(_SQL["sessions"](limit=limit))

"""History: the partitions of the attempts, retention, and the record of Celery's own results."""

import json
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from jobs.core.instants import EARLIEST
from jobs.models.fields import first_id_since
from jobs.store import db, partitions
from tenants.clock import database_now

_SQL = db.queries("history")


class TimelineEntry(NamedTuple):
    """Where a walk over the timelines of jobs has come to."""

    job_id: UUID
    valid_from: datetime
    id: UUID


FIRST_ENTRY = TimelineEntry(UUID(int=0), EARLIEST, UUID(int=0))


def ensure_partitions(*, weeks_ahead: int | None = None) -> list[str]:
    """Create the attempts' partitions of this week and the next ones. Returns those created. May be repeated."""
    return partitions.ensure(partitions.ATTEMPTS, ahead=weeks_ahead)


def drop_partitions(*, retention: timedelta) -> list[str]:
    """Drop the attempts' partitions that ended longer ago than ``retention``. Returns their names."""
    return partitions.drop(partitions.ATTEMPTS, before=database_now() - retention)


def purge_triggers(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` ended triggers older than ``retention``. Returns how many."""
    return _purge("purge_triggers", retention, limit)


def purge_catchups(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` catch-ups finished longer ago than ``retention``. Returns how many."""
    return _purge("purge_catchups", retention, limit)


def purge_ranges(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` ranges of skipped firings that end longer ago than ``retention``. Returns how many."""
    return _purge("purge_ranges", retention, limit)


def purge_effects(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` records of effects whose triggers are past ``retention`` and gone. Returns how many."""
    return len(_SQL["purge_effects"](before_id=first_id_within(retention), limit=limit))


def purge_versions(
    *, retention: timedelta, limit: int, after: TimelineEntry = FIRST_ENTRY
) -> tuple[TimelineEntry, int]:
    """Delete those of the next ``limit`` entries of jobs' timelines whose time ended longer ago than ``retention``.

    Whatever an audit within the retention, or a catch-up in hand, goes by is kept. Returns where to go on
    (``FIRST_ENTRY`` at the end of the walk) and how many were deleted.
    """
    rows = _SQL["purge_versions"](
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


def purge_results(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` Celery results older than ``retention``. Returns how many."""
    return len(_SQL["purge_results"](retention=retention, limit=limit))


def purge_sessions(*, limit: int) -> int:
    """Delete up to ``limit`` sessions of browsers that are over. Returns how many."""
    return len(_SQL["purge_sessions"](limit=limit))


def store_result(
    *,
    task_id: str,
    task_name: str | None,
    worker: str | None,
    status: str,
    result: object,
    traceback: str | None,
    task_args: str | None,
) -> None:
    """Keep what a Celery task returned, once; a stale duplicate never overwrites it."""
    _SQL["store_result"](
        task_id=task_id,
        task_name=task_name,
        worker=worker,
        status=status,
        result=json.dumps(result),
        traceback=traceback,
        task_args=task_args,
    )

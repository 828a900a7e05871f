"""History: partitions of the attempts, retention, and the record of Celery's own results."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from psycopg import sql

from jobs.core.instants import EARLIEST
from jobs.models.fields import first_id_since
from jobs.store import db
from jobs.telemetry import get_logger
from tenants.clock import database_now

log = get_logger()
_SQL = db.queries("history")
#: A partition spans one ISO week, Monday to Monday in UTC.
SPAN = timedelta(days=7)
#: How long a change of partitions may keep claims waiting.
LOCK_TIMEOUT = "100ms"
_CREATE_PARTITION = (
    "CREATE TABLE {name} (LIKE jobs_attempt INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (fillfactor = 50)",
    "WITH moved AS (DELETE FROM jobs_attempt_default WHERE started_at >= {start} AND started_at < {end} RETURNING *) "
    "INSERT INTO {name} SELECT * FROM moved",
    "ALTER TABLE jobs_attempt ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})",
)


class TimelineEntry(NamedTuple):
    """Where a walk over the timelines of jobs has come to."""

    job_id: UUID
    valid_from: datetime
    id: UUID


FIRST_ENTRY = TimelineEntry(UUID(int=0), EARLIEST, UUID(int=0))


def ensure_partitions(*, weeks_ahead: int = 4) -> list[str]:
    """Create the partitions of this week and the next ``weeks_ahead``. Returns those created. May be repeated.

    What somebody's lock prevents, or the role's want of rights, is left for another time: the default partition takes
    the attempts until then.
    """
    if not _may_partition():
        return []
    existing = {row.name for row in _SQL["partitions"]()}
    monday = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    monday -= timedelta(days=monday.weekday())
    created = []
    for start in (monday + SPAN * week for week in range(weeks_ahead + 1)):
        name = f"jobs_attempt_{start:%Y%m%d}"
        if name not in existing and _unless_locked(partial(_create_partition, name, start)):
            created.append(name)
    return created


def _may_partition() -> bool:
    [row] = _SQL["may_partition"]()
    if not row.may:
        log.error(
            "partitions of the attempts can be neither made nor dropped: they are kept indefinitely, in one table",
            remedy=f"GRANT CREATE ON SCHEMA {row.schema} TO {row.role}; ALTER TABLE jobs_attempt OWNER TO {row.role}",
        )
    return bool(row.may)


def _unless_locked(change: Callable[[], bool]) -> bool:
    """What ``change`` returns; False where it would wait. Claims queue up behind its lock, and it behind any reader."""
    try:
        with db.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            return change()
    except db.StatementFailed as error:
        log.info("partitions postponed", error=str(error).strip())
        return False


def _create_partition(name: str, start: datetime) -> bool:
    """Create one, with what the default partition took in its stead; False: another beat was faster.

    Attached rather than created in place, because that lets claims go on meanwhile.
    """
    parts = {
        "name": sql.Identifier(name),
        "start": sql.Literal(start.isoformat()),
        "end": sql.Literal((start + SPAN).isoformat()),
    }
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobs_attempt_default IN ACCESS EXCLUSIVE MODE")
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        if cursor.fetchone()[0]:
            return False
        for statement in _CREATE_PARTITION:
            cursor.execute(sql.SQL(statement).format(**parts))
    return True


def drop_partitions(*, retention: timedelta) -> list[str]:
    """Drop the attempts' partitions that ended longer ago than ``retention``. Returns their names.

    What somebody's lock prevents, or the role's want of rights, is left for another time.
    """
    if not _may_partition():
        return []
    horizon = database_now() - retention
    past = [row.name for row in _SQL["partitions"]() if row.upper_bound and row.upper_bound <= horizon]
    return [name for name in past if _unless_locked(partial(_drop_partition, name))]


def _drop_partition(name: str) -> bool:
    # Not detached concurrently: Postgres does not where there is a default partition.
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
    return True


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

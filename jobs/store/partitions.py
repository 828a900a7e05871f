"""Partitions by time of the attempts, the activity counts and the events: made ahead, and dropped past retention.

A default partition takes the rows that no other takes, after a clock was far off, or after weeks without a beat to
prepare partitions. Past rows that it took get partitions of their own, so that retention drops them too. A change that
another transaction's lock prevents, or that the role has no right to make, is left for another time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db import connection
from psycopg import sql

from jobs.store import db
from jobs.telemetry import get_logger
from tenants.clock import database_now

log = get_logger()
_SQL = db.queries("partitions")
#: How long a change of partitions may keep writers waiting.
LOCK_TIMEOUT = "100ms"
#: A Monday, so that a week's partition spans an ISO week in UTC.
_ORIGIN = datetime(2001, 1, 1, tzinfo=UTC)
_CREATE = (
    "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (fillfactor = {fillfactor})",
    "WITH moved AS (DELETE FROM {rest} WHERE {column} >= {start} AND {column} < {end} RETURNING *) "
    "INSERT INTO {name} SELECT * FROM moved",
    "ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})",
)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A table, the column that says which partition a row is in, the ``span`` of one, and how many are made ahead.

    ``rows`` names its rows in the log; they stay in one table where partitions cannot be made. ``key``: the columns
    that tell its rows apart. ``fillfactor``: how many percent of a page inserts fill; the rest is room for updates.
    """

    table: str
    column: str
    span: timedelta
    ahead: int
    rows: str
    key: tuple[str, ...]
    fillfactor: int = 50

    def starts(self, now: datetime, *, ahead: int) -> Iterator[datetime]:
        """Where the present partition and the next ``ahead`` begin."""
        first = self.start_of(now)
        return (first + self.span * number for number in range(ahead + 1))

    def start_of(self, instant: datetime) -> datetime:
        """Where the partition of ``instant`` begins."""
        return instant - (instant - _ORIGIN) % self.span

    @property
    def default(self) -> str:
        """The partition of rows that are in no other."""
        return f"{self.table}_default"

    def name_of(self, start: datetime) -> str:
        return f"{self.table}_{start.astimezone(UTC):%Y%m%d}"


@dataclass(frozen=True, slots=True)
class Partition:
    """An existing partition; the first of all may have no lower bound."""

    of: Partitioned
    name: str
    since: datetime | None
    until: datetime


ATTEMPTS = Partitioned("jobs_attempt", "started_at", timedelta(days=7), 4, "attempts", ("id",))
_COUNTED = ("tenant_id", "job_type")
MINUTES = Partitioned(
    "jobs_activityminute", "minute", timedelta(days=1), 2, "counts by the minute", ("minute", *_COUNTED)
)
HOURS = Partitioned(
    "jobs_activityhour", "hour", timedelta(days=7), 2, "counts by the hour", ("hour", *_COUNTED)
)
EVENTS = Partitioned("jobs_event", "at", timedelta(days=1), 4, "events", ("xid", "id"), fillfactor=100)
ALL = (ATTEMPTS, MINUTES, HOURS, EVENTS)
#: Tables that are kept as long as history.
HISTORY = (ATTEMPTS, EVENTS)
#: The most rows of a default partition that are counted, and the most spans of time that get partitions in one pass.
MAX_STRAYS, MAX_STRAY_SPANS = 1_000, 20


def ensure(of: Partitioned, *, ahead: int | None = None) -> list[str]:
    """Create the present partition and those ahead. Returns the names of those created. May be repeated."""
    if not _may_change(of):
        return []
    existing = _SQL["partitions"](table=of.table)
    starts = of.starts(database_now(), ahead=of.ahead if ahead is None else ahead)
    return [
        of.name_of(start)
        for start in starts
        if not _covered(start, existing) and _unless_locked(partial(_create, of, start))
    ]


def _covered(start: datetime, existing: Iterable[Any]) -> bool:
    """Whether a partition holds rows of ``start``; the first of all may have no lower bound."""
    return any(
        row.upper_bound and (row.lower_bound is None or row.lower_bound <= start) and start < row.upper_bound
        for row in existing
    )


def take_in(of: Partitioned) -> list[str]:
    """Make partitions for the past rows that the default one took. Returns their names. May be repeated.

    Call it after ``ensure``, which logs it where the role may not make partitions.
    """
    if not _SQL["may_partition"](table=of.table)[0].may:
        return []
    made: list[str] = []
    present = of.start_of(database_now())
    oldest = sql.SQL("SELECT min({}) FROM {}").format(sql.Identifier(of.column), sql.Identifier(of.default))
    while len(made) < MAX_STRAY_SPANS:
        with connection.cursor() as cursor:
            cursor.execute(oldest)
            [first] = cursor.fetchone()
        if first is None or first >= present or not _unless_locked(partial(_create, of, of.start_of(first))):
            break
        made.append(of.name_of(of.start_of(first)))
    return made


def strays() -> dict[str, int]:
    """How many rows the default partition of each table holds, of up to ``MAX_STRAYS``: they should hold none."""
    counts = [
        sql.SQL("SELECT {}, (SELECT count(*) FROM (SELECT FROM {} LIMIT {}) first)").format(
            sql.Literal(of.table), sql.Identifier(of.default), sql.Literal(MAX_STRAYS)
        )
        for of in ALL
    ]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(" UNION ALL ").join(counts))
        return dict(cursor.fetchall())


def past(of: Partitioned, *, before: datetime) -> list[Partition]:
    """The partitions that end by ``before``, the oldest first; none where the role may not drop them."""
    if not _may_change(of):
        return []
    return [
        Partition(of, row.name, row.lower_bound, row.upper_bound)
        for row in _SQL["partitions"](table=of.table)
        if row.upper_bound and row.upper_bound <= before
    ]


def drop(of: Partitioned, *, before: datetime) -> list[str]:
    """Drop the partitions that end by ``before``. Returns their names."""
    return [each.name for each in past(of, before=before) if drop_one(each)]


def drop_one(partition: Partition) -> bool:
    """Drop it. False: it is still there, because the drop would have waited for another transaction's lock."""
    return _unless_locked(partial(_drop, partition.name))


def _may_change(of: Partitioned) -> bool:
    [row] = _SQL["may_partition"](table=of.table)
    if not row.may:
        log.error(
            f"partitions of the {of.rows} can be neither made nor dropped: they are kept indefinitely, in one table",
            remedy=f"GRANT CREATE ON SCHEMA {row.schema} TO {row.role}; ALTER TABLE {of.table} OWNER TO {row.role}",
        )
    return bool(row.may)


def _unless_locked(change: Callable[[], bool]) -> bool:
    """The result of ``change``; False where it would wait: claims queue up behind its lock, it behind any reader."""
    try:
        with db.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            return change()
    except db.StatementFailed as error:
        log.info("partitions postponed", error=str(error).strip())
        return False


def _create(of: Partitioned, start: datetime) -> bool:
    """Create one, with the rows that the default partition took in its place; False: another beat was faster.

    It is attached rather than created in place, because that lets writers go on meanwhile.
    """
    parts = {
        "table": sql.Identifier(of.table),
        "column": sql.Identifier(of.column),
        "name": sql.Identifier(of.name_of(start)),
        "rest": sql.Identifier(of.default),
        "fillfactor": sql.Literal(of.fillfactor),
        "start": sql.Literal(start.isoformat()),
        "end": sql.Literal((start + of.span).isoformat()),
    }
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("LOCK TABLE {rest} IN ACCESS EXCLUSIVE MODE").format(**parts))
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [of.name_of(start)])
        if cursor.fetchone()[0]:
            return False
        for statement in _CREATE:
            cursor.execute(sql.SQL(statement).format(**parts))
    return True


def _drop(name: str) -> bool:
    # Not detached concurrently: Postgres refuses that where there is a default partition.
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
    return True

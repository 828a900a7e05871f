"""Reading the rows that an audit compares: jobs a chunk at a time, each chunk from one snapshot, triggers streamed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet

from jobs.actions.ledger_audit.comparison import Comparison, Recorded
from jobs.actions.ledger_audit.expected import FURTHEST_AHEAD, expected
from jobs.actions.ledger_audit.findings import JobAudit
from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from jobs.store import db

#: Firings of a job that was created a moment ago are on record only after the beat's next pass.
SETTLING = timedelta(seconds=5)
#: Triggers end, and are purged, up to the look-ahead before their instant when someone cancels them.
RETENTION_MARGIN = 2 * FURTHEST_AHEAD
_JOBS_AT_ONCE = 200
_ROWS_AT_ONCE = 5000


def audit(
    *,
    jobs: QuerySet[Job],
    since: datetime,
    until: datetime,
    keep: int = 10,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Iterator[JobAudit]:
    """Audit every instant of ``jobs`` from ``since`` to ``until``, both included; one result a job, by id.

    ``until`` should lie ``SETTLING`` before now, and ``since`` not before the retention horizon. ``on_progress`` is
    told how many jobs are done.
    """
    last, done = UUID(int=0), 0
    while True:
        with db.atomic():
            _take_snapshot()
            chunk = list(jobs.filter(id__gt=last).select_related("tenant").order_by("id")[:_JOBS_AT_ONCE])
            yield from _audit_chunk(chunk, since, until, keep)
        if len(chunk) < _JOBS_AT_ONCE:
            return
        last, done = chunk[-1].id, done + len(chunk)
        on_progress(done)


def _take_snapshot() -> None:
    """Make the transaction see one moment; inside a caller's, its earlier reads have decided that already."""
    if connection.savepoint_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # The caller goes through a burst of differences without a query to the database.
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def _audit_chunk(jobs: Sequence[Job], since: datetime, until: datetime, keep: int) -> Iterator[JobAudit]:
    ids = [job.id for job in jobs]
    timelines = _by_job(
        JobVersion.objects.filter(job__in=ids, valid_from__lte=until).order_by("valid_from", "id")
    )
    ranges = _by_job(
        SkippedRange.objects.filter(job__in=ids, until_at__gte=since, from_at__lte=until).order_by("from_at")
    )
    in_hand = _by_job(
        CatchUp.objects.filter(job__in=ids, finished_at=None, origin=CatchUp.Origin.OUTAGE).order_by("cursor")
    )
    recorded = groupby(_recorded(ids, since, until), key=attrgetter("job_id"))
    ahead = next(recorded, None)
    for job in jobs:
        of_job: Iterator[Recorded] = iter(())
        if ahead is not None and ahead[0] == job.id:
            of_job = ahead[1]
        result = JobAudit(job, keep)
        timeline = timelines.get(job.id, [])
        if timeline:
            pieces = expected(result, timeline, since=since, until=until)
            comparison = Comparison(
                result, pieces=pieces, ranges=ranges.get(job.id, []), in_hand=in_hand.get(job.id, [])
            )
            comparison.run(of_job, since=since, until=until)
        elif job.created_at <= until:
            result.add("no_timeline", job.created_at, "nothing says when it was to fire")
        if ahead is not None and ahead[0] == job.id:
            ahead = next(recorded, None)
        yield result


def _recorded(ids: Sequence[UUID], since: datetime, until: datetime) -> Iterator[Recorded]:
    """The jobs' triggers by job and time. Reading a time takes longest, so the database compares the other one."""
    rows = (
        Trigger.objects.filter(job__in=ids, scheduled_for__gte=since, scheduled_for__lte=until)
        .annotate(withdrawn=Q(finished_at__lt=F("scheduled_for")))
        .order_by("job_id", "scheduled_for")
        .values_list("job_id", "scheduled_for", "origin", "withdrawn", "replay_count")
    )
    return map(Recorded._make, rows.iterator(chunk_size=_ROWS_AT_ONCE))


def _by_job(rows: Iterable[Any]) -> dict[UUID, list[Any]]:
    found: dict[UUID, list[Any]] = {}
    for row in rows:
        found.setdefault(row.job_id, []).append(row)
    return found

"""Outcomes: how the firings of one job went, read from the ledger. No row counts them, and every read is bounded."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.core.histogram import RATIO, SMALLEST
from jobs.models import SkippedRange
from jobs.store import db
from tenants.clock import database_now

_SQL = db.queries("outcomes")
#: Consecutive failures are looked for among a job's ``MAX_ATTEMPTS`` latest attempts, and counted to ``MAX_FAILURES``.
MAX_ATTEMPTS = 1_000
MAX_FAILURES = 100
#: Outages leave far fewer ranges of skipped firings.
MAX_RANGES = 1_000
#: A read that finds nothing in memory is given up after this: its caller is a person, and all share the disk.
PATIENCE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time up to now, in buckets, each of which is looked at in ``slices``.

    At most ``limit`` firings of a slice are read. That covers all firings of a job that fires once a second in the
    shortest window, once in six seconds in the next, and once a minute in the longest. It makes some 130,000 rows at
    most.
    """

    span: timedelta
    bucket: timedelta
    slices: int
    limit: int


WINDOWS = {
    "24h": Window(timedelta(hours=24), bucket=timedelta(hours=1), slices=12, limit=301),
    "7d": Window(timedelta(days=7), bucket=timedelta(hours=6), slices=6, limit=601),
    "90d": Window(timedelta(days=90), bucket=timedelta(days=1), slices=24, limit=61),
}
#: The windows of charts; they show the recent past in minutes.
SPANS = {
    "1h": Window(timedelta(hours=1), bucket=timedelta(minutes=1), slices=1, limit=61),
    "6h": Window(timedelta(hours=6), bucket=timedelta(minutes=10), slices=10, limit=61),
    **WINDOWS,
}


@dataclass(slots=True)
class Figures:
    """Firings of a stretch of time by state, and histograms (``core.histogram``). ``complete``: all were looked at."""

    states: Counter[str] = field(default_factory=Counter)
    lag: Counter[int] = field(default_factory=Counter)
    duration: Counter[int] = field(default_factory=Counter)
    complete: bool = True

    def add(self, other: "Figures") -> None:
        self.states += other.states
        self.lag += other.lag
        self.duration += other.duration
        self.complete = self.complete and other.complete


@dataclass(frozen=True, slots=True)
class Statistics:
    """``buckets`` follow each other from ``since`` on; the last ends at ``until``."""

    since: datetime
    until: datetime
    buckets: list[Figures]

    @property
    def total(self) -> Figures:
        total = Figures()
        for bucket in self.buckets:
            total.add(bucket)
        return total


def latest(job_id: UUID) -> Any | None:
    """The row of ``latest``, or None where nothing of the job has started. One statement."""
    rows = _SQL["latest"](job_id=job_id, attempts=MAX_ATTEMPTS, most=MAX_FAILURES)
    return rows[0] if rows else None


def statistics(*, job_id: UUID, window: Window) -> Statistics:
    """The outcomes of the firings of the window, which begins with a whole bucket (in UTC) and ends now.

    Raises ``StatementFailed`` after ``PATIENCE``.
    """
    since, until, count = extent(window)
    buckets = [Figures() for _ in range(count)]
    with patiently():
        rows = _SQL["statistics"](
            job_id=job_id,
            since=since,
            until=until,
            slice=window.bucket / window.slices,
            slices=len(buckets) * window.slices,
            slices_a_bucket=window.slices,
            limit=window.limit,
            smallest=SMALLEST,
            ratio=RATIO,
        )
        ranges = list(
            SkippedRange.objects.filter(job_id=job_id, until_at__gte=since, from_at__lt=until)
            .order_by("-until_at")
            .values_list("from_at", "until_at", "count")[:MAX_RANGES]
        )
    for row in rows:
        _note(buckets[row.bucket], row)
    for skipped in ranges:
        _spread(skipped, buckets, since=since, bucket=window.bucket)
    return Statistics(since, until, buckets)


def extent(window: Window) -> tuple[datetime, datetime, int]:
    """The beginning of a window (a whole bucket, in UTC), its end (now), and how many buckets it has."""
    until = database_now()
    start = until - window.span
    since = start - timedelta(seconds=start.timestamp() % window.bucket.total_seconds())
    return since, until, -(-(until - since) // window.bucket)


@contextmanager
def patiently() -> Iterator[None]:
    """A transaction whose statements are given up after ``PATIENCE``, as ``StatementFailed``."""
    with db.atomic():
        with connection.cursor() as cursor:
            milliseconds = str(round(PATIENCE.total_seconds() * 1000))
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [milliseconds])
        yield


def _note(figures: Figures, row: Any) -> None:
    if row.state is not None:
        figures.states[row.state] += row.count
    elif row.lag is not None:
        figures.lag[row.lag] += row.count
    elif row.duration is not None:
        figures.duration[row.duration] += row.count
    else:
        figures.complete = False


def _spread(
    skipped: tuple[datetime, datetime, int], buckets: list[Figures], *, since: datetime, bucket: timedelta
) -> None:
    """Count a range's firings in the buckets that it touches, as if they were spread evenly over its time."""
    from_at, until_at, count = skipped
    length = (until_at - from_at) or timedelta(microseconds=1)

    def before(instant: datetime) -> int:
        return round(count * min(1.0, max(0.0, (instant - from_at) / length)))

    first = max(0, (from_at - since) // bucket)
    for number in range(first, min(len(buckets), (until_at - since) // bucket + 1)):
        begins = since + number * bucket
        buckets[number].states["skipped"] += before(begins + bucket) - before(begins)

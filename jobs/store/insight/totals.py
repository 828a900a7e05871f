"""Totals: how the firings of one tenant went, read from what processes counted (``insight.activity``).

Not from the ledger: a count stands where it happened, not where the firing was due. A firing that is replayed counts
again.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.core.activity import KINDS
from jobs.store import db
from jobs.store.insight.outcomes import Window, extent, patiently

_SQL = db.queries("activity")
#: Job types that are told of. A tenant can declare and delete any number.
MAX_TYPES = 100


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts by kind. ``buckets`` follow each other from ``since`` on; the last ends at ``until``. ``job_types``: by
    their stored names, the busiest first."""

    since: datetime
    until: datetime
    buckets: list[Counter[str]]
    job_types: dict[str, Counter[str]]

    @property
    def total(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for bucket in self.buckets:
            total.update(bucket)
        return total


def totals(*, tenant_id: int, window: Window) -> Totals:
    """What happened of a tenant in the window, which begins with a whole bucket (in UTC) and ends now.

    Raises ``StatementFailed`` after ``PATIENCE``.
    """
    since, until, count = extent(window)
    buckets: list[Counter[str]] = [Counter() for _ in range(count)]
    job_types: dict[str, Counter[str]] = {}
    with patiently():
        rows = _SQL["of_tenant"](
            tenant_id=tenant_id,
            since=since,
            until=until,
            bucket_seconds=round(window.bucket.total_seconds()),
            limit=count + MAX_TYPES,
        )
    for row in rows:
        if row.bucket is not None:
            buckets[min(row.bucket, count - 1)] += _counts(row)
        elif len(job_types) < MAX_TYPES:
            job_types[row.job_type] = _counts(row)
    return Totals(since, until, buckets, job_types)


def _counts(row: Any) -> Counter[str]:
    return Counter({kind: number for kind in KINDS if (number := getattr(row, kind))})

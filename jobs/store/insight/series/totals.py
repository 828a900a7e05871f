"""Totals: how the firings of tenants went, read from the counts of processes (``insight.activity``).

They are not read from the ledger: a count stands at the time when it happened, not when the firing was due. A firing
that is replayed counts again.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs.core.activity import KINDS
from jobs.store import db
from jobs.store.insight.outcomes import Window, extent, patiently

_SQL = db.queries("activity")
#: The most job types that are returned. A tenant can declare and delete any number.
MAX_TYPES = 100
_HOUR = timedelta(hours=1)


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


def totals(*, tenant_ids: Iterable[int], window: Window, job_type: str = "") -> Totals:
    """The counts of some tenants, or of ``ALL_TENANTS``, in the window, which begins with a whole bucket (in UTC)
    and ends now. ``job_type``: its stored name; '': of all.

    For all tenants, the types that tenants declare are one, ``DECLARED_TYPES``. Raises ``StatementFailed`` after
    ``PATIENCE``.
    """
    since, until, count = extent(window)
    buckets: list[Counter[str]] = [Counter() for _ in range(count)]
    job_types: dict[str, Counter[str]] = {}
    with patiently():
        rows = _SQL["of_tenants"](
            tenant_ids=list(tenant_ids),
            job_type=job_type,
            since=since,
            until=until,
            by_minute=window.bucket < _HOUR,
            bucket_seconds=round(window.bucket.total_seconds()),
            limit=count + MAX_TYPES,
        )
    for row in rows:
        if row.bucket is not None:
            buckets[min(row.bucket, count - 1)] += _counts(row)
        elif len(job_types) < MAX_TYPES:
            job_types[row.job_type] = _counts(row)
    return Totals(since, until, buckets, job_types)


def retried_most(*, tenant_ids: Iterable[int], window: Window, job_type: str, limit: int) -> dict[int, int]:
    """How often each of some tenants retried in the window, for the ``limit`` that retried most. As ``totals``."""
    since, until, _ = extent(window)
    with patiently():
        rows = _SQL["retried_most"](
            tenant_ids=list(tenant_ids),
            job_type=job_type,
            since=since,
            until=until,
            by_minute=window.bucket < _HOUR,
            limit=limit,
        )
    return {row.tenant_id: row.retried for row in rows}


def _counts(row: Any) -> Counter[str]:
    return Counter({kind: number for kind in KINDS if (number := getattr(row, kind))})

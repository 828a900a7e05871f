"""Firings in the time to come, by schedule: counted now where there are few jobs, else as the leader keeps them.

Bounded reads, however many jobs there are. The leader keeps one row per tenant, and one of all tenants together;
nothing depends on these.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.core.calendar.forecast import QUARTERS, Forecast, Outlook
from jobs.core.states import JobStatus
from jobs.models import KeptForecast
from jobs.store import db
from jobs.store.jobs import schedule_of

_SQL = db.queries("forecast")
#: At most this many of the jobs that fire in one minute are looked at.
MAX_IN_MINUTE = 5_000
#: The most jobs that are counted while a caller waits.
MAX_COUNTED = 2_000
#: For some tenants alone, the next firings are looked for among this many of all tenants.
MAX_NEXT = 5_000
#: The pace of all tenants is read from fewer minutes, because there are counts of each tenant.
MINUTES, MINUTES_OF_ALL = 60, 10
_MANY_TENANTS = 20
#: The row of all tenants together.
ALL = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """Starts per second over the last ``minutes`` minutes, and in the fastest of them."""

    minutes: int
    mean: float
    fastest: float


def jobs_in_minute(*, tenant_id: int, minute: datetime) -> tuple[int, bool]:
    """How many jobs of the tenant fire next in that minute, and whether that is all of them. One statement."""
    [found] = _SQL["in_minute"](tenant_id=tenant_id, minute=minute, most=MAX_IN_MINUTE)
    return found.own, found.looked_at < MAX_IN_MINUTE


def jobs_after(after: UUID, *, limit: int) -> Sequence[Any]:
    """The next jobs of a walk over all of them."""
    return _SQL["jobs_after"](after=after, limit=limit)


def counted_now(tenant_ids: Collection[int], *, now: datetime) -> tuple[Outlook, list[Any]] | None:
    """The outlook of the tenants' jobs, and these jobs in the order in which they fire next; None where there are more
    than ``MAX_COUNTED``. One statement."""
    rows = _SQL["jobs_of_tenants"](tenant_ids=list(tenant_ids), limit=MAX_COUNTED + 1)
    if len(rows) > MAX_COUNTED:
        return None
    forecast, active = Forecast(now=now, schedule_of=schedule_of), [row for row in rows if fires(row)]
    for row in active:
        forecast.add(row)
    return forecast.of(*forecast.tenant_ids), sorted(active, key=lambda row: row.next_fire_at)


def fires(job: Any) -> bool:
    return bool(job.status == JobStatus.ACTIVE and job.next_fire_at is not None)


def next_jobs(tenant_ids: Collection[int] | None, *, limit: int) -> Sequence[Any]:
    """The jobs that fire next; None: of all tenants. One statement."""
    ids = None if tenant_ids is None else list(tenant_ids)
    return _SQL["next_jobs"](tenant_ids=ids, limit=limit, most=limit if ids is None else MAX_NEXT)


def pace(tenant_ids: Collection[int] | None) -> Pace:
    """The pace counted lately; None: of all tenants. One statement."""
    few = tenant_ids is not None and len(tenant_ids) <= _MANY_TENANTS
    minutes = MINUTES if few else MINUTES_OF_ALL
    ids = None if tenant_ids is None else list(tenant_ids)
    started = [row.started for row in _SQL["pace"](tenant_ids=ids, minutes=minutes)]
    return Pace(minutes, sum(started) / (60 * minutes), max(started, default=0) / 60)


def keep(outlooks: Iterable[tuple[int, Outlook]], *, made_at: datetime) -> None:
    """Keep the outlooks, by tenant (``ALL``: of all). One statement."""
    rows = [
        KeptForecast(
            tenant_id=tenant_id,
            made_at=made_at,
            since=outlook.since,
            total=outlook.total,
            jobs=outlook.jobs,
            counts=outlook.counts,
            peaks=outlook.peaks,
            peak_minutes=outlook.peak_minutes,
        )
        for tenant_id, outlook in outlooks
    ]
    KeptForecast.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["tenant_id"],
        update_fields=["made_at", "since", "total", "jobs", "counts", "peaks", "peak_minutes"],
    )


def forget(*, before: datetime) -> None:
    """Drop the outlooks that an earlier walk kept, of tenants that have no more jobs."""
    KeptForecast.objects.filter(made_at__lt=before).delete()


def kept(tenant_ids: Collection[int]) -> tuple[Outlook, datetime] | None:
    """The kept outlook of these tenants together, and when the oldest part of it was made; None where none is kept."""
    rows = list(KeptForecast.objects.filter(tenant_id__in=tenant_ids).order_by("-total")[:MAX_COUNTED])
    if not rows:
        return None
    since = max(row.since for row in rows)
    return combined([row for row in rows if row.since == since]), min(row.made_at for row in rows)


def combined(rows: Sequence[KeptForecast]) -> Outlook:
    """Rows of one time together; each quarter's fullest minute is that of the tenant with the highest peak in it."""
    fullest = [max(rows, key=lambda row, at=at: row.peaks[at]) for at in range(QUARTERS)]  # type: ignore[misc]
    return Outlook(
        since=rows[0].since,
        counts=[sum(row.counts[at] for row in rows) for at in range(QUARTERS)],
        peaks=[row.peaks[at] for at, row in enumerate(fullest)],
        peak_minutes=[row.peak_minutes[at] for at, row in enumerate(fullest)],
        jobs=sum(row.jobs for row in rows),
    )


def busiest(tenant_ids: Collection[int] | None, *, limit: int) -> list[KeptForecast]:
    """The tenants that fire most, by the kept outlooks; None: of all."""
    rows = KeptForecast.objects.exclude(tenant_id=ALL).order_by("-total")
    return list((rows if tenant_ids is None else rows.filter(tenant_id__in=tenant_ids))[:limit])

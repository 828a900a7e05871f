"""The next 24 hours: the firings in each quarter of an hour, beside the recent pace; herds; the jobs that fire next.

Where there are few jobs, they are counted now, and the count is exact. Else the page shows the leader's last count, and
says when that was.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import Http404
from django.urls import reverse

from jobs.admin.shared.pages import ConsolePage
from jobs.core.calendar.forecast import QUARTER, Outlook
from jobs.core.pull import shown_name
from jobs.explain.gate import span
from jobs.store.insight import forecast
from jobs.store.insight.forecast import Pace
from tenants.clock import database_now
from tenants.console.reach import tenants_within_reach
from tenants.models import Tenant

A_DAY = 96
MAX_NEXT, MAX_TENANTS, MAX_HERDS = 200, 20, 5
#: For more tenants than this the page shows the count that the leader kept, and does not count now.
_MAX_BOUND = 50
#: The firings of one minute are a herd from so many on, and if they take so long at the fastest recent pace.
HERD, _HERD_SECONDS = 50, 10.0
_ID = re.compile("[0-9]{1,18}", re.ASCII)
#: A slower pace says how little was asked for, not how much could have started.
_LEAST_PACE = 1.0
#: How much of the fastest recent pace a quarter needs, at least, for each shade.
_SHADES = ((1.0, 4), (0.5, 3), (0.1, 2), (0.0, 1))


@dataclass(frozen=True, slots=True)
class Cell:
    """A quarter of an hour: ``shade`` 0 to 4 by the part of the pace that it needs."""

    at: datetime
    count: int
    shade: int
    text: str
    title: str


class Upcoming(ConsolePage):
    title = "Next 24 hours"
    permission = "jobs.view_job"
    template_name = "admin/upcoming.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, tenant = database_now(), self._tenant()
        within = tenants_within_reach(self.request.user)
        ids = [tenant.pk] if tenant else None if within is None else sorted(within)
        outlook, coming, made_at = _outlook(ids, now)
        pace = forecast.pace(ids)
        start = now - timedelta(minutes=now.minute % 15, seconds=now.second, microseconds=now.microsecond)
        first = (start - outlook.since) // QUARTER if outlook else 0
        cells = _cells(outlook, pace, first) if outlook else []
        rows = coming[:MAX_NEXT] if coming is not None else forecast.next_jobs(ids, limit=MAX_NEXT)
        return super().get_context_data(
            **kwargs,
            tenant=tenant,
            now=now,
            made_at=made_at,
            exact=coming is not None,
            jobs=outlook.jobs if outlook else 0,
            total=f"{sum(cell.count for cell in cells):,}",
            columns=(columns := _by_hour(cells)),
            minutes=_by_minute(columns),
            pace=pace,
            herds=_herds(outlook, pace, first) if outlook else [],
            tenants=[] if tenant else _tenants(ids, start),
            upcoming=_next(rows, now),
            looked_at=None if coming is not None or ids is None else forecast.MAX_NEXT,
        )

    def _tenant(self) -> Tenant | None:
        """The tenant that is asked about. Raises ``Http404`` for one that is not there, or beyond reach."""
        given = self.request.GET.get("tenant", "")
        if not given:
            return None
        within = tenants_within_reach(self.request.user)
        if not _ID.fullmatch(given) or (within is not None and int(given) not in within):
            raise Http404
        found = Tenant.objects.filter(pk=int(given)).first()
        if found is None:
            raise Http404
        return found


def _outlook(
    ids: Collection[int] | None, now: datetime
) -> tuple[Outlook | None, list[Any] | None, datetime | None]:
    """The outlook; the jobs by their next firing, if all were counted now; else since when the outlook is kept."""
    kept = forecast.kept([forecast.ALL] if ids is None else ids)
    if kept is None or kept[0].jobs <= forecast.MAX_COUNTED:
        whose = Tenant.objects.values_list("pk", flat=True)[: _MAX_BOUND + 1] if ids is None else ids
        counted = forecast.counted_now(whose, now=now) if len(whose) <= _MAX_BOUND else None
        if counted is not None:
            return *counted, None
    return (kept[0], None, kept[1]) if kept else (None, None, None)


def _cells(outlook: Outlook, pace: Pace, first: int) -> list[Cell]:
    counts = outlook.counts[max(first, 0) :][:A_DAY]
    start = outlook.since + max(first, 0) * QUARTER
    found = []
    for number, count in enumerate(counts):
        at = start + number * QUARTER
        # The part of the starts that the quarter allows at the fastest recent pace.
        needs = count / (_yardstick(pace) * QUARTER.total_seconds())
        shade = next(shade for least, shade in _SHADES if needs >= least) if count else 0
        rate = count / QUARTER.total_seconds()
        title = f"{at:%a %H:%M} to {at + QUARTER:%H:%M} UTC: {count:,} firings, {rate:.3g} a second"
        found.append(Cell(at, count, shade, _brief(count), title))
    return found


def _yardstick(pace: Pace) -> float:
    return max(pace.fastest, _LEAST_PACE)


def _by_hour(cells: list[Cell]) -> list[dict[str, Any]]:
    """Columns of four quarters; the first and the last may lack some."""
    columns: dict[datetime, list[Cell | None]] = {}
    for cell in cells:
        hour = cell.at.replace(minute=0)
        columns.setdefault(hour, [None] * 4)[cell.at.minute // 15] = cell
    return [{"hour": f"{hour:%H}", "cells": cells} for hour, cells in columns.items()]


def _by_minute(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as rows of a table."""
    return [
        {"name": f":{15 * row:02d}", "cells": [column["cells"][row] for column in columns]}
        for row in range(4)
    ]


def _brief(count: int) -> str:
    """``43k`` for 43,000: a cell is narrow."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.2g}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count) if count else ""


def _herds(outlook: Outlook, pace: Pace, first: int) -> list[dict[str, str]]:
    """The fullest minutes, whose firings take a while even at the fastest recent pace."""
    stretch = slice(max(first, 0), max(first, 0) + A_DAY)
    peaks = list(zip(outlook.peaks, outlook.peak_minutes, strict=True))[stretch]
    found = []
    for number, (peak, minute) in sorted(enumerate(peaks), key=lambda item: -item[1][0])[:MAX_HERDS]:
        seconds = peak / _yardstick(pace)
        if peak < HERD or seconds < _HERD_SECONDS:
            continue
        at = outlook.since + (max(first, 0) + number) * QUARTER + timedelta(minutes=minute)
        takes = f"{span(timedelta(seconds=seconds))} of work at that pace"
        found.append({"at": f"{at:%a %H:%M} UTC", "count": f"{peak:,}", "takes": takes})
    return found


def _tenants(ids: Collection[int] | None, start: datetime) -> list[dict[str, Any]]:
    rows = forecast.busiest(ids, limit=MAX_TENANTS)
    slugs = dict(Tenant.objects.filter(pk__in=[row.tenant_id for row in rows]).values_list("pk", "slug"))
    found = []
    for row in rows:
        first = max((start - row.since) // QUARTER, 0)
        counts = row.counts[first:][:A_DAY]
        found.append(
            {
                "slug": slugs.get(row.tenant_id, f"tenant {row.tenant_id}"),
                "url": f"{reverse('console_upcoming')}?tenant={row.tenant_id}",
                "jobs": f"{row.jobs:,}",
                "hour": f"{sum(counts[:4]):,}",
                "day": f"{sum(counts):,}",
                "most": f"{max(counts, default=0):,}",
            }
        )
    return found


def _next(rows: Collection[Any], now: datetime) -> list[dict[str, str]]:
    slugs = dict(Tenant.objects.filter(pk__in={row.tenant_id for row in rows}).values_list("pk", "slug"))
    return [
        {
            "name": row.name,
            "url": reverse("admin:jobs_job_change", args=[row.id]),
            "tenant": slugs.get(row.tenant_id, ""),
            "job_type": shown_name(row.job_type),
            "at": f"{row.next_fire_at:%a %Y-%m-%d %H:%M:%S} UTC",
            "ahead": f"in {span(row.next_fire_at - now)}" if row.next_fire_at > now else "now",
        }
        for row in rows
    ]

"""Warnings about a valid schedule: firings that get into each other's way, and crowded minutes."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from jobs.core.backoff import RetryPolicy, ladder
from jobs.core.policies import OverlapPolicy
from jobs.core.schedule import Schedule
from jobs.explain.gate import span
from jobs.store.insight import forecast
from tenants.models import Tenant

#: So many other jobs in one minute make it crowded.
CROWD = 20
#: The effect of overlap on the firings that come due while one is being retried.
_EFFECTS = {
    OverlapPolicy.SKIP: "are skipped",
    OverlapPolicy.QUEUE: "wait for it",
    OverlapPolicy.COLLAPSE: "are merged into one waiting firing",
    OverlapPolicy.REPLACE: "each replace the previous one and end its retries",
}


def cautions(
    *,
    firings: Sequence[datetime],
    schedule: Schedule,
    jitter: timedelta,
    retries: RetryPolicy | None,
    overlap: str,
    tenant: Tenant | None,
    now: datetime,
) -> list[str]:
    """The warnings, as sentences. ``firings``: the next few. One bounded statement if there is a ``tenant``."""
    gap = min((later - earlier for earlier, later in pairwise(firings)), default=None)
    found = [*_of_retries(gap, retries, overlap), *_of_jitter(gap, schedule, jitter)]
    if tenant is not None and firings and firings[0] > now:
        found += _of_crowd(firings[0], jitter, tenant)
    return found


def _of_retries(gap: timedelta | None, retries: RetryPolicy | None, overlap: str) -> Iterator[str]:
    longest = sum(ladder(retries), timedelta()) if retries else timedelta()
    if retries and retries.max_elapsed:
        longest = min(longest, retries.max_elapsed)
    effect = _EFFECTS.get(OverlapPolicy(overlap))
    if gap is None or longest <= gap or effect is None:
        return
    count = longest // gap
    yield (
        f"A firing that keeps failing is retried for {span(longest)}, longer than the {span(gap)} between "
        "two firings: "
        f"about {count:,} firings that become due in this time {effect} (overlap policy {overlap})."
    )


def _of_jitter(gap: timedelta | None, schedule: Schedule, jitter: timedelta) -> Iterator[str]:
    if gap is not None and jitter >= gap:
        yield (
            f"A jitter of {span(jitter)} is not shorter than the {span(gap)} between two firings: "
            "they may overtake each other."
        )
    if schedule.starts_at and schedule.ends_at and jitter > schedule.ends_at - schedule.starts_at:
        yield (
            f"A jitter of {span(jitter)} is longer than the {span(schedule.ends_at - schedule.starts_at)} between its "
            "start and its end: a firing may start after the end."
        )


def _of_crowd(first: datetime, jitter: timedelta, tenant: Tenant) -> Iterator[str]:
    minute = first.replace(second=0, microsecond=0)
    others, whole = forecast.jobs_in_minute(tenant_id=tenant.id, minute=minute)
    if others < CROWD:
        return
    least = "" if whole else "at least "
    spread = "" if jitter else ": another minute or a jitter spreads them"
    yield f"{minute:%H:%M} UTC is a crowded minute: {least}{others:,} jobs of {tenant.slug} fire next in it{spread}."

"""How a tenant uses its quotas, and its recent share of the capacity."""

from typing import Any

from jobs import limits
from jobs.explain.gates import Available
from jobs.handlers.builtin.queues import own_prefix
from jobs.shapes.explain import TenantShape
from jobs.store import jobs
from jobs.store.insight import usage
from jobs.store.insight.usage import Recent
from tenants.models import Tenant

_PERCENTILES = ("p50", "p95", "p99")


def tenant_usage(tenant: Tenant, *, available: Available | None = None) -> dict[str, Any]:
    """The tenant as the API shows it. A constant number of bounded reads, and a question for its rate if it has one.

    ``available`` answers for the rate limit in place of the count.
    """
    flying, recent = usage.in_flight(tenant.id), usage.recent(tenant.id)
    bucket = limits.tenant_bucket(tenant.id, tenant.rate_per_second, tenant.rate_burst)
    ask = available or limits.shared_buckets().available
    return TenantShape.of(
        tenant,
        queues=[f"{own_prefix(tenant.slug)}*", *tenant.queues],
        limits=tenant,
        usage={
            "jobs": jobs.living(tenant.id),
            "in_flight": flying.queued + flying.running,
            "queued": flying.queued,
            "running": flying.running,
            "starts_per_second": round(recent.own_starts / recent.seconds, 3),
            "starts_allowed_now": ask(bucket) if bucket else None,
        },
        recent=_recent(recent),
    )


def _recent(recent: Recent) -> dict[str, Any]:
    waits = zip(_PERCENTILES, recent.waits, strict=True) if recent.waits else ()
    return {
        "seconds": round(recent.seconds, 3),
        "starts": recent.own_starts,
        "share": round(recent.own_starts / recent.starts, 4) if recent.starts else None,
        "wait_seconds": {name: round(seconds, 3) for name, seconds in waits} or None,
        "sample_size": recent.waited,
    }

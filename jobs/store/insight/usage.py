"""Usage: what a tenant has in flight and what it got lately. Bounded reads by indexes that are there for others."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.models.fields import first_id_since
from jobs.store import db
from tenants.clock import database_now

_SQL = db.queries("usage")
#: Shares are of so many of the latest attempts of all tenants, waits of so many of a tenant's latest firings.
MAX_STARTS = 10_000
MAX_OWN = 2_000
SHARE_WINDOW = timedelta(seconds=60)
WAIT_WINDOW = timedelta(minutes=5)
#: Ids are stamped by processes' clocks, which may be off; what was started when is told by the database's.
_CLOCKS_APART = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Recent:
    """``own_starts`` of the ``starts`` within ``seconds`` were the tenant's. ``waits``: p50, p95, p99 of ``waited``."""

    seconds: float
    starts: int
    own_starts: int
    waits: tuple[float, float, float] | None
    waited: int


def in_flight(tenant_id: int) -> Any:
    """``queued`` and ``running`` of the tenant."""
    return _SQL["load"](tenant_id=tenant_id)[0]


def recent(tenant_id: int) -> Recent:
    """What the tenant got lately. Two statements, whatever there is."""
    now = database_now()
    since = now - WAIT_WINDOW
    latest = _SQL["latest_starts"](
        tenant_id=tenant_id,
        after=first_id_since(since - _CLOCKS_APART),
        since=since,
        share_since=now - SHARE_WINDOW,
        limit=MAX_STARTS,
    )[0]
    own = _SQL["own_waits"](tenant_id=tenant_id, since=since, limit=MAX_OWN)[0]
    # Either is the latest of something; the one that saw more says more.
    waits, waited = max((latest.waits, latest.waited), (own.waits, own.waited), key=lambda sample: sample[1])
    window = now - latest.first_at if latest.cut_off and latest.first_at else SHARE_WINDOW
    return Recent(
        seconds=window.total_seconds(),
        starts=latest.starts,
        own_starts=latest.own_starts,
        waits=tuple(waits) if waited else None,
        waited=waited,
    )

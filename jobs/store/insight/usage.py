"""Usage: a tenant's triggers in flight and its recent starts. Bounded reads by indexes that are there for others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.models.fields import first_id_since
from jobs.store import db
from tenants.clock import database_now

_SQL = db.queries("usage")
#: Shares are of at most ``MAX_STARTS`` latest attempts of all tenants, waits of at most ``MAX_OWN`` latest firings of a
#: tenant.
MAX_STARTS = 10_000
MAX_OWN = 2_000
#: Firings that start later than this count as late, for so long.
LATE, LATE_WINDOW, MAX_LATE_STARTS = timedelta(seconds=0.5), timedelta(seconds=2), 500
SHARE_WINDOW = timedelta(seconds=60)
WAIT_WINDOW = timedelta(minutes=5)
#: Ids are stamped by processes' clocks, which may be off; the database's clock tells when each attempt was started.
_CLOCKS_APART = timedelta(hours=1)
#: The most lanes of a tenant that are looked at, and the most triggers counted in each; in a list of tenants fewer.
MAX_LANES, MAX_SHOWN_LANES, MAX_OF_LANE = 1_000, 50, 1_000
MAX_LISTED_LANES, MAX_LISTED = 5_000, 100
#: How far back failures are looked for.
LATELY = timedelta(hours=24)
MAX_FAILED_ATTEMPTS, MAX_FAILING_JOBS = 2_000, 5


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
    """The tenant's recent starts and waits. Three statements, one for the time, however much there is."""
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
    # Each is a sample of the latest firings; the larger sample says more.
    waits, waited = max((latest.waits, latest.waited), (own.waits, own.waited), key=lambda sample: sample[1])
    window = now - latest.first_at if latest.cut_off and latest.first_at else SHARE_WINDOW
    return Recent(
        seconds=window.total_seconds(),
        starts=latest.starts,
        own_starts=latest.own_starts,
        waits=tuple(waits) if waited else None,
        waited=waited,
    )


def late_tenants() -> int:
    """How many tenants' firings started late in the last two seconds. One statement, and one for the time."""
    now = database_now()
    return int(
        _SQL["late_tenants"](
            after=first_id_since(now - _CLOCKS_APART),
            since=now - LATE_WINDOW,
            late=LATE,
            limit=MAX_LATE_STARTS,
        )[0].count
    )


@dataclass(slots=True)
class Standing:
    """How a tenant stands in a list of tenants. ``due``, ``dead``: counted to ``MAX_LISTED`` a lane, and in all."""

    in_flight: int = 0
    due: int = 0
    oldest_seconds: float | None = None
    dead: int = 0


def standings(tenant_ids: Sequence[int]) -> dict[int, Standing]:
    """How some tenants stand; a hundred of them at most. Three statements, and the time."""
    found = {tenant_id: Standing() for tenant_id in tenant_ids}
    ids = list(tenant_ids)
    for row in _SQL["loads"](tenant_ids=ids):
        found[row.tenant_id].in_flight = row.count
    lanes = _SQL["lanes"](tenant_ids=ids, lanes=MAX_LISTED_LANES, shown=MAX_LISTED_LANES, limit=MAX_LISTED)
    for row in lanes:
        standing = found[row.tenant_id]
        standing.due += row.count
        standing.oldest_seconds = max(row.oldest_seconds, standing.oldest_seconds or 0.0)
    after = first_id_since(database_now() - LATELY)
    for row in _SQL["deaths"](tenant_ids=ids, after=after, limit=MAX_LISTED):
        found[row.tenant_id].dead = row.count
    return found


def backlog(tenant_id: int) -> list[Any]:
    """A tenant's due triggers that wait, lane by lane, the longest wait first: rows of ``lanes``."""
    return _SQL["lanes"](tenant_ids=[tenant_id], lanes=MAX_LANES, shown=MAX_SHOWN_LANES, limit=MAX_OF_LANE)


def failing_jobs(tenant_id: int) -> list[Any]:
    """The jobs of a tenant that failed most lately: rows of ``failing_jobs``."""
    since = database_now() - LATELY
    return _SQL["failing_jobs"](
        tenant_id=tenant_id,
        after=first_id_since(since - _CLOCKS_APART),
        since=since,
        limit=MAX_FAILED_ATTEMPTS,
        jobs=MAX_FAILING_JOBS,
    )

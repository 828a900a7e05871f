"""Reads of the console's lists that query sets express badly: a bounded number of rows for each lane, tenant or job.

Each statement jumps along an index, however little the planner knows of the tables, and looks at no more rows than it
says.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobs.store import db

_SQL = db.queries("lists")
#: The most lanes that a look at waiting triggers jumps over.
MAX_LANES = 2_000
#: Newest rows that are taken of one tenant alone, of each of several, and altogether.
OF_ONE, OF_EACH, OF_ALL = 10_000, 500, 10_000
#: The most dead letters that are grouped, and the most groups that are returned.
MAX_DEAD, MAX_GROUPS = 10_000, 100
_LAST_TENANT = 2**63 - 1
#: Names are in the order of their bytes: no name that begins with a prefix comes after the prefix followed by this.
_LAST_CHARACTER = "\U0010ffff"


def waiting(
    *,
    since: datetime,
    until: datetime,
    limit: int,
    tenant_ids: Iterable[int] | None = None,
    job_type: str | None = None,
) -> list[UUID]:
    """Ids of the triggers that dispatch may take and that fall due in ``since < t <= until``, the first due first."""
    tenants = None if tenant_ids is None else sorted(tenant_ids)
    if tenants == []:
        return []
    rows = _SQL["waiting"](
        since=since,
        until=until,
        limit=limit,
        lanes=MAX_LANES,
        first_tenant=tenants[0] if tenants else 0,
        last_tenant=tenants[-1] if tenants else _LAST_TENANT,
        tenant_ids=tenants,
        job_type=job_type,
    )
    return [row.id for row in rows]


def labelled(*, tenant_ids: Sequence[int], key: str, value: str) -> list[UUID]:
    """Ids of the newest jobs of these tenants with a label."""
    rows = _SQL["labelled"](
        tenant_ids=list(tenant_ids), key=key, value=value, each=_each(tenant_ids), limit=OF_ALL
    )
    return [row.job_id for row in rows]


def at_rest(*, tenant_ids: Sequence[int], status: str) -> list[UUID]:
    """Ids of the newest living jobs of these tenants that are paused, completed or cancelled."""
    rows = _SQL["at_rest"](tenant_ids=list(tenant_ids), status=status, each=_each(tenant_ids), limit=OF_ALL)
    return [row.id for row in rows]


def named(*, tenant_ids: Sequence[int], prefix: str) -> list[UUID]:
    """Ids of living jobs of these tenants whose names begin with ``prefix``, the newest first."""
    rows = _SQL["named"](
        tenant_ids=list(tenant_ids),
        first=prefix,
        beyond=f"{prefix}{_LAST_CHARACTER}",
        each=_each(tenant_ids),
        limit=OF_ALL,
    )
    return [row.id for row in rows]


def latest_firings(*, job_ids: Sequence[UUID], each: int) -> dict[UUID, list[Any]]:
    """The latest firings of each job, the earliest first."""
    found: dict[UUID, list[Any]] = {}
    for row in _SQL["latest_firings"](job_ids=list(job_ids), each=each):
        found.setdefault(row.job_id, []).append(row)
    return found


def _each(tenant_ids: Sequence[int]) -> int:
    return OF_ONE if len(tenant_ids) == 1 else OF_EACH


class Fingerprint(NamedTuple):
    """The values that the dead letters of one group have in common."""

    tenant_id: int
    job_type: str
    error_code: str
    http_status: int | None
    target: str


def failures(
    *, since: datetime, tenant_ids: Iterable[int] | None = None, alike: Fingerprint | None = None
) -> list[Any]:
    """The latest ``MAX_DEAD`` dead letters since then by fingerprint, the largest group first; or one group."""
    return _SQL["failures"](
        since=since,
        tenant_ids=[alike.tenant_id] if alike else None if tenant_ids is None else sorted(tenant_ids),
        limit=MAX_DEAD,
        groups=MAX_GROUPS,
        **(alike._asdict() if alike else dict.fromkeys(Fingerprint._fields)),
    )

"""Explain: the figures that decide whether a trigger may start, each read as dispatch reads it."""

from typing import Any
from uuid import UUID

from jobs.store import db
from jobs.store.insight.workers import GONE_AFTER

_SQL = db.queries("explain")
#: Counts of what goes first end here.
MOST_AHEAD = 1_000
#: Of a job's unfinished triggers so many are looked at.
MOST_UNFINISHED = 10_000
#: Of the triggers that stand in the way, so many are named.
MOST_NAMED = 10


def trigger_facts(*, trigger_id: UUID, tenant_id: int) -> Any | None:
    """The one row of ``trigger_facts``; None when the tenant has no such trigger. One statement."""
    rows = _SQL["trigger_facts"](
        id=trigger_id,
        tenant_id=tenant_id,
        most=MOST_UNFINISHED,
        most_ahead=MOST_AHEAD,
        named=MOST_NAMED,
        silence=GONE_AFTER,
    )
    return rows[0] if rows else None


def job_facts(*, job_id: UUID, tenant_id: int) -> Any:
    """The one row of ``job_facts``. One statement."""
    return _SQL["job_facts"](job_id=job_id, tenant_id=tenant_id, limit=MOST_UNFINISHED)[0]

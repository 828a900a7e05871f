"""Users' actions on triggers: cancel, replay, dismiss, hold, withdraw. ``jobs.actions`` calls it in its transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.core.activity import SKIPS
from jobs.store import db, events
from jobs.store.insight import activity
from jobs.store.jobs import callers_trace_kept
from jobs.store.trail import present_name

_SQL = db.queries("lifecycle")


def lock_tenant(tenant_id: int) -> None:
    """Keep dispatch away from the tenant until the transaction ends."""
    _SQL["lock_tenant"](tenant_id=tenant_id)


def weigh(*, job_ids: Sequence[UUID], most: int) -> dict[UUID, int]:
    """How many unfinished triggers each of these jobs has; at most ``most`` are counted per job."""
    return {row.id: row.triggers for row in _SQL["weigh"](job_ids=list(job_ids), most=most)}


def hand_back(*, job_ids: Sequence[UUID]) -> int:
    """Spend the fence of the jobs' queued triggers. Returns how many."""
    rows = _SQL["hand_back_jobs"](job_ids=list(job_ids))
    activity.count(rows, "handed_back")
    return len(rows)


def hold(*, job_ids: Sequence[UUID], held: bool) -> None:
    """Hide the jobs' waiting triggers from dispatch, or show them again."""
    _SQL["hold_jobs"](job_ids=list(job_ids), held=held)


def paused_since(*, job_ids: Sequence[UUID]) -> dict[UUID, datetime]:
    """When each of these paused jobs was paused."""
    return {row.id: row.paused_at for row in _SQL["paused_since"](job_ids=list(job_ids))}


def skip_paused(
    pauses: Mapping[UUID, datetime], *, now: datetime, ends: Mapping[UUID, datetime] | None = None
) -> int:
    """Skip firings that fell due from the start of each job's pause (``paused_since``) to its end. Returns how many.

    ``ends``: the ends of pauses that ended before ``now``.
    """
    over_ats = [(ends or {}).get(job_id, now) for job_id in pauses]
    rows = _SQL["skip_paused"](job_ids=list(pauses), paused_ats=list(pauses.values()), over_ats=over_ats)
    activity.count(rows, SKIPS["paused"])
    return _noted(rows)


def withdraw_future(*, job_ids: Sequence[UUID], now: datetime) -> int:
    """Remove the jobs' firings after ``now``: they are no longer expected. Returns how many."""
    rows = _SQL["withdraw_future"](job_ids=list(job_ids), now=now)
    activity.count(rows, "withdrawn")
    return len(rows)


def restamp(jobs: Sequence[Any]) -> None:
    """Give the jobs' waiting triggers the present versions, priorities and types of the jobs."""
    _SQL["restamp"](
        job_ids=[job.id for job in jobs],
        versions=[job.version for job in jobs],
        priorities=[int(job.priority) for job in jobs],
        job_types=[job.job_type for job in jobs],
    )


def cancel_jobs(*, job_ids: Sequence[UUID]) -> int:
    """Cancel the jobs' waiting triggers and ask their running ones to stop. Returns how many there were of both."""
    rows = _SQL["cancel_jobs"](job_ids=list(job_ids))
    activity.count_cancelled(rows)
    return _noted(rows)


def cancel(*, trigger_id: UUID, tenant_id: int) -> bool:
    """Cancel one trigger, or ask it to stop if it is running. False: it has ended already, or is not this tenant's."""
    return bool(cancel_many(trigger_ids=[trigger_id], tenant_id=tenant_id))


def cancel_many(*, trigger_ids: Sequence[UUID], tenant_id: int) -> list[UUID]:
    """Cancel triggers, and ask those that run to stop. Returns the ids of both."""
    rows = _SQL["cancel"](ids=list(trigger_ids), tenant_id=tenant_id)
    activity.count_cancelled(rows)
    activity.count_first(rows)
    _noted(rows)
    return [row.id for row in rows]


def replay(*, trigger_ids: Sequence[UUID], tenant_id: int) -> list[UUID]:
    """Send ended triggers through once more. Returns the ids that were replayed."""
    rows = _SQL["replay"](ids=list(trigger_ids), tenant_id=tenant_id, trace=callers_trace_kept())
    activity.count(rows, "replayed")
    _noted(rows)
    return [row.id for row in rows]


def dismiss(*, trigger_ids: Sequence[UUID], tenant_id: int, note: str) -> list[UUID]:
    """Take dead letters out of the list, by the present actor. Returns the ids that were dismissed."""
    rows = _SQL["dismiss"](ids=list(trigger_ids), tenant_id=tenant_id, by=present_name(), note=note)
    return [row.id for row in rows]


def _noted(rows: Sequence[Any]) -> int:
    """Append events for the changes of these triggers; returns how many there are. Those that run on are left out."""
    events.note(row.id for row in rows)
    return len(rows)

"""Catch-up: begin it, take the next, note how far it came, end it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs.core.schedule import Schedule
from jobs.models import CatchUp
from jobs.models.fields import new_id
from jobs.store import db
from jobs.store import jobs as job_store
from jobs.store.insight import activity
from jobs.store.leases import Leadership

_SQL = db.queries("catchup")


@dataclass(frozen=True, slots=True)
class Past:
    """A stretch of a job's past firings, both ends included. ``expected``: how many there are, if that is known.

    ``window``, ``max_catchup`` and ``policy`` are the job's. With a ``reason`` all firings are skipped for it.
    ``trace``: the trace of the caller that asked for them, as it is stored.
    """

    job_id: UUID
    tenant_id: int
    job_version: int
    origin: str
    policy: str
    from_at: datetime
    until_at: datetime
    window: timedelta | None = None
    max_catchup: int | None = None
    reason: str = ""
    expected: int | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a catch-up: all firings up to ``cursor`` are dealt with, except ``tail``, which must still run."""

    id: UUID
    cursor: datetime
    tail: Sequence[datetime]
    fired: int
    skipped: int
    done: bool


def begin(pasts: Sequence[Past]) -> list[UUID]:
    """Note past firings that must still be decided or run. Returns the catch-ups' ids."""
    if not pasts:
        return []
    ids = [new_id() for _ in pasts]
    _SQL["begin"](
        ids=ids,
        job_ids=[past.job_id for past in pasts],
        tenant_ids=[past.tenant_id for past in pasts],
        job_versions=[past.job_version for past in pasts],
        origins=[past.origin for past in pasts],
        policies=[past.policy for past in pasts],
        reasons=[past.reason for past in pasts],
        windows=[past.window for past in pasts],
        max_catchups=[past.max_catchup for past in pasts],
        from_ats=[past.from_at for past in pasts],
        until_ats=[past.until_at for past in pasts],
        expecteds=[past.expected for past in pasts],
        traces=[past.trace for past in pasts],
    )
    return ids


def absorb(pasts: Sequence[Past]) -> list[Past]:
    """The same stretches, extended back to missed firings that still wait undispatched; these lose their triggers."""
    if not pasts:
        return []
    rows = _SQL["absorb"](
        job_ids=[past.job_id for past in pasts], grace_ends=[past.until_at for past in pasts]
    )
    activity.count(rows, "withdrawn")
    earliest: dict[UUID, datetime] = {}
    for row in rows:
        earliest[row.job_id] = min(row.scheduled_for, earliest.get(row.job_id, row.scheduled_for))
    return [
        replace(past, from_at=min(past.from_at, earliest[past.job_id])) if past.job_id in earliest else past
        for past in pasts
    ]


def schedule_of(row: Any) -> Schedule:
    """The schedule under which a taken catch-up began, even if its job has another one now."""
    past = row.past_schedule
    return job_store.schedule_of(row) if past is None else job_store.schedule_then(past)


def take_undecided(*, leadership: Leadership, after: UUID, limit: int) -> list[Any]:
    """Lock up to ``limit`` catch-ups, after the id ``after``, that wait for a decision."""
    return _SQL["take_undecided"](term=leadership.term, after=after, limit=limit)


def waiting() -> dict[int, int]:
    """Tenants with past firings that must run, and how many triggers of these dispatch has not taken yet."""
    return {row.tenant_id: row.waiting for row in _SQL["waiting"]()}


def take_decided(
    *, leadership: Leadership, tenant_id: int, after: UUID, backlog: int, limit: int
) -> list[Any]:
    """Lock up to ``limit`` of a tenant's catch-ups, after the id ``after``, that must run.

    ``room`` says how many firings of each may be made now. A job that fires one at a time is passed over while a
    trigger of it is due or under way; any other job while ``backlog`` such triggers wait.
    """
    return _SQL["take_decided"](
        term=leadership.term, tenant_id=tenant_id, after=after, backlog=backlog, limit=limit
    )


def advance(steps: Sequence[Progress]) -> None:
    """Write each catch-up's progress, in the transaction that recorded its firings."""
    if steps:
        _SQL["advance"](
            ids=[step.id for step in steps],
            cursors=[step.cursor for step in steps],
            tails=["{" + ",".join(f'"{at.isoformat()}"' for at in step.tail) + "}" for step in steps],
            fireds=[step.fired for step in steps],
            skippeds=[step.skipped for step in steps],
            dones=[step.done for step in steps],
        )


def end(*, job_ids: Sequence[UUID]) -> None:
    """Let nothing more of the jobs' catch-up run: the leader records the firings that are left, a backfill just ends.

    Costs the same however much is left. Waits for a step of the leader that is at work on it.
    """
    _SQL["end_jobs"](job_ids=list(job_ids))


def end_backfill(backfill_id: UUID, *, job_id: UUID) -> bool:
    """Make nothing more of an unfinished backfill of the job. Returns whether there was one."""
    return bool(_SQL["end_backfill"](id=backfill_id, job_id=job_id))


def hold(*, job_ids: Sequence[UUID]) -> None:
    """Keep the leader's steps away from the jobs' catch-up until the transaction ends; waits for one at work on it.

    Otherwise the step might make triggers for the version of a job that an edit has just replaced.
    """
    unfinished = CatchUp.objects.filter(job_id__in=job_ids, finished_at=None)
    list(unfinished.order_by("id").select_for_update().values_list("id"))


def give_up(ids: Sequence[UUID]) -> None:
    """End catch-up whose schedule can no longer be computed."""
    if ids:
        _SQL["give_up"](ids=list(ids))

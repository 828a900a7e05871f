"""Operations on all objects that match a filter: begin, take one, note the work of a slice, pause, cancel, purge."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.models.fields import new_id
from jobs.store import db
from jobs.store.jobs import callers_trace_kept
from jobs.store.purge import first_id_within
from jobs.store.trail import present_actor

_SQL = db.queries("operations")
#: The most refusals that are listed one by one.
MAX_REFUSALS = 20


def begin(
    *,
    tenant_id: int,
    verb: str,
    wanted: Mapping[str, str],
    most: int,
    changes: Mapping[str, Any] | None = None,
    all_or_nothing: bool = False,
    per_second: float | None = None,
    reason: str = "",
    expected: int | None = None,
) -> UUID | None:
    """Record an operation, in the present actor's name; None when ``most`` operations of the tenant are unfinished.

    Call under the tenant's lock.
    """
    actor = present_actor()
    rows = _SQL["begin"](
        id=new_id(),
        tenant_id=tenant_id,
        verb=verb,
        filter=json.dumps(dict(wanted)),
        changes=None if changes is None else json.dumps(dict(changes)),
        all_or_nothing=all_or_nothing,
        per_second=per_second,
        reason=reason,
        expected=expected,
        asked_by=actor and json.dumps(actor.as_dict()),
        trace=callers_trace_kept(),
        most=most,
    )
    return rows[0].id if rows else None


def take() -> Any:
    """The unfinished operation whose turn it is, by tenant, locked until the transaction ends; None: there is none.

    ``room``: how many of its items may be done now; None: any number.
    """
    rows = _SQL["take"]()
    return rows[0] if rows else None


def wait() -> float | None:
    """Seconds until an operation that keeps a pace may go on, at most 0 if one may go on now; None: there is none."""
    rows = _SQL["wait"]()
    return rows[0].seconds if rows else None


def note(*, operation: Any, cursor: UUID, done: int, refusals: Mapping[UUID, str], ends: bool) -> None:
    """Record the work of a slice of the taken operation, in the transaction that did it."""
    _SQL["note"](
        **_found(operation, cursor, refusals, ends),
        done=done,
        items=done + len(refusals),
        paced_from=operation.paced_from,
    )


def note_checked(
    *, operation: Any, cursor: UUID, items: int, refusals: Mapping[UUID, str], ends: bool
) -> None:
    """Record the findings of a slice that only checked ``items`` items."""
    _SQL["note_checked"](**_found(operation, cursor, refusals, ends), items=items)


def _found(operation: Any, cursor: UUID, refusals: Mapping[UUID, str], ends: bool) -> dict[str, Any]:
    told = [{"id": str(key), "detail": detail} for key, detail in refusals.items()]
    return {
        "id": operation.id,
        "cursor": cursor,
        "refused": len(refusals),
        "refusals": json.dumps(told[:MAX_REFUSALS]),
        "most": MAX_REFUSALS,
        "ends": ends,
    }


def note_reason(job_ids: Sequence[UUID], *, reason: str) -> None:
    """Write the reason to paused jobs, which the caller has locked."""
    _SQL["note_reason"](ids=list(job_ids), reason=reason)


def postpone(*, operation_id: UUID) -> None:
    """Let the other operations go first."""
    _SQL["postpone"](id=operation_id)


def pause(*, operation_id: UUID, tenant_id: int) -> bool:
    """Do nothing more of it for now. False: it is finished or paused already, or not this tenant's."""
    return bool(_SQL["pause"](id=operation_id, tenant_id=tenant_id))


def resume(*, operation_id: UUID, tenant_id: int) -> bool:
    """Let it go on. False: it is not paused, or not this tenant's."""
    return bool(_SQL["resume"](id=operation_id, tenant_id=tenant_id))


def cancel(*, operation_id: UUID, tenant_id: int) -> bool:
    """Do nothing more of it. False: it is finished already, or not this tenant's."""
    return bool(_SQL["cancel"](id=operation_id, tenant_id=tenant_id))


def purge(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` operations finished longer ago than ``retention``. Returns how many."""
    return len(_SQL["purge"](before_id=first_id_within(retention), retention=retention, limit=limit))

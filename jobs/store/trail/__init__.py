"""The audit trail: who changed what, written by the tables themselves (``models.trail``, ADR 20)."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.store import db
from jobs.store.events import Place
from jobs.store.trail.actor import ENGINE, Actor, ActorKind, acting_as, identify, present_actor, present_name

__all__ = (
    "ENGINE",
    "Actor",
    "ActorKind",
    "acting_as",
    "identify",
    "note",
    "note_jobs",
    "page",
    "page_of_object",
    "present_actor",
    "present_name",
    "purge",
)
_SQL = db.queries("trail")
#: Values that are longer as JSON are not kept; nor are such values of columns.
_MAX_LENGTH = 1000


def page(*, tenant_id: int, after: Place, limit: int) -> list[Any]:
    """Up to ``limit`` changes of the tenant's objects after a place, in order: rows of ``sql/trail.sql: page``.

    Changes that are as new as an unfinished transaction, or newer, are left out until it is over, so that going on from
    the last row misses nothing.
    """
    return _SQL["page"].of_history(
        tenant_id=tenant_id, after_xid=str(after.xid), after_id=after.id, limit=limit
    )


def page_of_object(*, tenant_id: int, object_id: str, after: Place, limit: int) -> list[Any]:
    """The same for one object."""
    return _SQL["page_of_object"].of_history(
        tenant_id=tenant_id, object_id=object_id, after_xid=str(after.xid), after_id=after.id, limit=limit
    )


def note_jobs(changes: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Put changes of jobs that no watched column shows on the trail: ``{what: [before, after]}`` for each job."""
    _SQL["note_jobs"](
        ids=list(changes),
        actor=_actor(),
        changes=[json.dumps(told) for told in changes.values()],
    )


def note(
    *,
    tenant_id: int | None,
    kind: str,
    object_id: object,
    name: str,
    action: str,
    changes: Mapping[str, Any],
) -> None:
    """Put the present actor's change of one object on the trail, in the transaction that made it: one row.

    ``kind`` and ``action`` are those of ``models.Change``; ``changes`` is ``{what: [before, after]}``, or None where
    the values are not kept.
    """
    kept = {
        what: told if told and len(json.dumps(told, default=str, ensure_ascii=False)) <= _MAX_LENGTH else None
        for what, told in changes.items()
    }
    _SQL["note"](
        tenant_id=tenant_id,
        kind=str(kind),
        object_id=str(object_id),
        name=name,
        action=str(action),
        actor=_actor(),
        changes=json.dumps(kept, default=str),
    )


def _actor() -> str | None:
    actor = present_actor()
    return actor.as_text() if actor else None


def purge(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` changes that are signed and older than ``retention``. Returns how many."""
    [row] = _SQL["purge"](retention=retention, limit=limit)
    return int(row.purged)

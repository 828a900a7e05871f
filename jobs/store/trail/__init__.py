"""The audit trail: who changed what, written by the tables themselves (``models.feed.change``, ADR 20)."""

from datetime import timedelta
from typing import Any

from jobs.store import db
from jobs.store.events import Place
from jobs.store.trail.actor import ENGINE, Actor, ActorKind, acting_as, identify, present_actor

__all__ = (
    "ENGINE",
    "Actor",
    "ActorKind",
    "acting_as",
    "identify",
    "page",
    "page_of_object",
    "present_actor",
    "purge",
)
_SQL = db.queries("trail")


def page(*, tenant_id: int, after: Place, limit: int) -> list[Any]:
    """Up to ``limit`` changes of the tenant's objects after a place, in order: rows of ``sql/trail.sql: page``.

    What is not over yet is left out until it is, so that going on from the last row misses nothing.
    """
    return _SQL["page"](tenant_id=tenant_id, after_xid=str(after.xid), after_id=after.id, limit=limit)


def page_of_object(*, tenant_id: int, object_id: str, after: Place, limit: int) -> list[Any]:
    """The same of one object."""
    return _SQL["page_of_object"](
        tenant_id=tenant_id, object_id=object_id, after_xid=str(after.xid), after_id=after.id, limit=limit
    )


def purge(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` changes older than ``retention``. Returns how many."""
    return len(_SQL["purge"](retention=retention, limit=limit))

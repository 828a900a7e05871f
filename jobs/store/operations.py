"""Operations on everything that matches a filter: begin, take one, note what a slice of it did, cancel, purge."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.models.fields import new_id
from jobs.store import db
from jobs.store.history import first_id_within
from jobs.store.trail import present_actor

_SQL = db.queries("operations")
#: Refusals that are told one by one.
MAX_REFUSALS = 20


def begin(*, tenant_id: int, verb: str, wanted: Mapping[str, str], most: int) -> UUID | None:
    """Put an operation on record, in the present actor's name; None when ``most`` of the tenant's are unfinished.

    Call under the tenant's lock.
    """
    actor = present_actor()
    rows = _SQL["begin"](
        id=new_id(),
        tenant_id=tenant_id,
        verb=verb,
        filter=json.dumps(dict(wanted)),
        asked_by=actor and json.dumps(actor.as_dict()),
        most=most,
    )
    return rows[0].id if rows else None


def take() -> Any:
    """The unfinished operation whose turn it is, by tenant, locked until the transaction ends; None: there is none."""
    rows = _SQL["take"]()
    return rows[0] if rows else None


def note(
    *, operation_id: UUID, cursor: UUID, done: int, refused: int, refusals: Sequence[Any], ends: bool
) -> None:
    """Record what a slice did, in the transaction that did it."""
    _SQL["note"](
        id=operation_id,
        cursor=cursor,
        done=done,
        refused=refused,
        refusals=json.dumps(refusals),
        most=MAX_REFUSALS,
        ends=ends,
    )


def postpone(*, operation_id: UUID) -> None:
    """Let the others go first."""
    _SQL["postpone"](id=operation_id)


def cancel(*, operation_id: UUID, tenant_id: int) -> bool:
    """Do nothing more of it. False: it is finished already, or not this tenant's."""
    return bool(_SQL["cancel"](id=operation_id, tenant_id=tenant_id))


def purge(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` operations finished longer ago than ``retention``. Returns how many."""
    return len(_SQL["purge"](before_id=first_id_within(retention), retention=retention, limit=limit))

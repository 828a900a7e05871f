"""Events: noting what became of triggers, and reading a tenant's feed without a gap (docs/events.md, ADR 15)."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.store import db

_SQL = db.queries("events")


class Place(NamedTuple):
    """A place in the feed: the transaction of an event and its id."""

    xid: int
    id: int


START = Place(0, 0)


def note(trigger_ids: Iterable[UUID]) -> None:
    """Append an event for what has just become of each trigger. Call inside the transaction that did it."""
    if ids := list(trigger_ids):
        _SQL["note"](ids=ids)


def note_ranges(runs: Sequence[Any]) -> None:
    """Append an event for each run of skipped firings (``catchup.ledger.Run``), inside their transaction."""
    if runs:
        _SQL["note_ranges"](
            job_ids=[run.job_id for run in runs],
            tenant_ids=[run.tenant_id for run in runs],
            from_ats=[run.from_at for run in runs],
            until_ats=[run.until_at for run in runs],
            counts=[run.count for run in runs],
            reasons=[run.reason for run in runs],
        )


def page(*, tenant_id: int, after: Place, limit: int) -> list[Any]:
    """Up to ``limit`` events of the tenant after a place, in order: rows of ``sql/events.sql: page``.

    What is not over yet is left out until it is, so that going on from the last row misses nothing.
    """
    return _SQL["page"](tenant_id=tenant_id, after_xid=str(after.xid), after_id=after.id, limit=limit)


def horizon() -> Place:
    """The place from which only what is still to come can be read."""
    return Place(int(_SQL["horizon"]()[0].xid), 0)


def purge(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` events older than ``retention``. Returns how many."""
    return len(_SQL["purge"](retention=retention, limit=limit))

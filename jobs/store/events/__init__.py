"""Events: noting changes of triggers, and reading a tenant's feed without a gap (docs/events.md, ADR 15)."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from jobs.store import db
from jobs.store.events.windows import Place, keep_marks, windows_after

__all__ = ("START", "Place", "horizon", "keep_marks", "lag_seconds", "note", "note_ranges", "page")
_SQL = db.queries("events")
START = Place(0, 0)


def note(trigger_ids: Iterable[UUID]) -> None:
    """Append an event for the latest change of each trigger. Call inside the transaction that made it."""
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

    Events that are as new as an unfinished transaction, or newer, are left out until it is over, so that going on from
    the last row misses nothing.
    """
    rows: list[Any] = []
    for window in windows_after(after):
        rows += _SQL["page"](tenant_id=tenant_id, limit=limit - len(rows), **window)
        if len(rows) == limit:
            break
    return rows


def horizon() -> Place:
    """The place from which only future events can be read."""
    return Place(int(_SQL["horizon"]()[0].xid), 0)


def lag_seconds(after: Place) -> float:
    """How old the first event after a place is, of any tenant; 0: there is none."""
    for window in windows_after(after):
        for row in _SQL["first"](**window):
            return max(0.0, float(row.seconds))
    return 0.0

"""The values that payloads of claimed tasks take from elsewhere: one statement a batch, none where none takes any.

Runs and results are read as they are: what is upstream has ended before, and is reset only together with what is
downstream of it. Joins the caller's transaction; may be repeated.
"""

from typing import Any
from uuid import UUID

from jobs.core.instants import instant_text
from jobs.core.workflows.flow import TOO_LARGE, Reference, Unresolved, filled, references
from jobs.models.firings.trigger import Origin
from jobs.store import db

_SQL = db.queries("workflows")


def fill_payloads(rows: list[Any]) -> None:
    """Put the values into the payloads of rows of ``execution.claim``; one that lacks any becomes an ``Unresolved``."""
    wanted: dict[UUID, set[Reference]] = {}
    for at, row in enumerate(rows):
        if row.origin == Origin.WORKFLOW:
            try:
                wanted[row.id] = references(row.payload)
            except ValueError as error:  # it must not cost its batch
                rows[at] = row._replace(payload=Unresolved(f"Its $from cannot be read. {error}"))
    pairs = [(key, reference) for key, found in wanted.items() for reference in found]
    if not pairs:
        return
    values = _values(pairs)
    for at, row in enumerate(rows):
        if wanted.get(row.id):
            rows[at] = row._replace(payload=filled(row.payload, values.get(row.id, {})))


def _values(pairs: list[tuple[UUID, Reference]]) -> dict[UUID, dict[Reference, Any]]:
    """What there is, by trigger."""
    found: dict[UUID, dict[Reference, Any]] = {}
    for row in _SQL["values"](
        ids=[key for key, _ in pairs], references=[str(reference) for _, reference in pairs]
    ):
        key, reference = pairs[row.nth - 1]
        value = instant_text(row.scheduled_for) if reference.what == "scheduled_for" else row.value
        found.setdefault(key, {})[reference] = TOO_LARGE if row.too_large else value
    return found

"""Find the data of claimed tasks: the values that their payloads take, and the run that each is a task of.

One statement per batch, none for a batch without tasks. Runs and results are read as they are: tasks upstream have
ended before, and are reset only together with the tasks downstream. Joins the caller's transaction; may be repeated.
"""

from typing import Any
from uuid import UUID

from jobs.core.instants import instant_text
from jobs.core.workflows.flow import TOO_LARGE, Reference, TaskContext, Unresolved, filled, references
from jobs.models.firings.trigger import Origin
from jobs.store import db

_SQL = db.queries("workflows")
#: Stands, among the references of a task, for the run that it is a task of.
_TASK = Reference("", "task", ())


def fill_tasks(rows: list[Any]) -> None:
    """Put the values into the payloads of rows of ``execution.claim``, and a ``TaskContext`` into ``workflow``. A
    payload that lacks a value becomes an ``Unresolved``.
    """
    wanted: dict[UUID, set[Reference]] = {}
    for at, row in enumerate(rows):
        if row.origin == Origin.WORKFLOW:
            try:
                wanted[row.id] = references(row.payload)
            except ValueError as error:  # it must not fail its batch
                wanted[row.id] = set()
                rows[at] = row._replace(payload=Unresolved(f"Its $from cannot be read. {error}"))
    if not wanted:
        return
    values = _values([(key, one) for key, found in wanted.items() for one in (_TASK, *found)])
    for at, row in enumerate(rows):
        if row.id in wanted:
            found = values.get(row.id, {})
            payload = filled(row.payload, found) if wanted[row.id] else row.payload
            rows[at] = row._replace(payload=payload, workflow=found.get(_TASK))


def _values(pairs: list[tuple[UUID, Reference]]) -> dict[UUID, dict[Reference, Any]]:
    """The values found, by trigger."""
    found: dict[UUID, dict[Reference, Any]] = {}
    inputs: dict[str, Any] = {}
    for row in sorted(_answered(pairs), key=lambda row: row.nth):
        key, reference = pairs[row.nth - 1]
        value: Any = TOO_LARGE if row.too_large else row.value
        if reference.what == "scheduled_for":
            value = instant_text(row.scheduled_for)
        elif reference == _TASK:
            value = _context(row, run_input=inputs.setdefault(value["run_id"], row.input))
        found.setdefault(key, {})[reference] = value
    return found


def _answered(pairs: list[tuple[UUID, Reference]]) -> list[Any]:
    return _SQL["values"](
        ids=[key for key, _ in pairs],
        references=[str(reference) for _, reference in pairs],
    )


def _context(row: Any, *, run_input: Any) -> TaskContext:
    told = row.value
    return TaskContext(
        workflow_id=UUID(told["workflow_id"]),
        workflow_name=told["workflow_name"],
        version=told["version"],
        run_id=UUID(told["run_id"]),
        task=told["task"],
        scheduled_for=row.scheduled_for,
        input=run_input,
    )

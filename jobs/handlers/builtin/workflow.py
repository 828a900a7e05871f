"""The types that begin runs of workflows; they are Carillon's own (ADR 32).

``carillon.workflow`` is the schedule of a workflow: each of its firings begins a run. ``carillon.run`` is a task that
is a run of another workflow: its attempt begins that inner run, and the task ends as the run does.
"""

from typing import Any
from uuid import UUID

from jobs.core.workflows.states import RUN_TYPE, SCHEDULE_TYPE
from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.context import Context
from jobs.handlers.outcome import Cancelled
from jobs.handlers.registry import job_type


class WorkflowPayload(BuiltInPayload):
    input: Any = None


@job_type(SCHEDULE_TYPE, timeout_seconds=60, batch_size=20, payload=WorkflowPayload)
def workflow(ctx: Context, payload: WorkflowPayload) -> dict[str, str]:
    """Begin a run of a workflow."""
    return _begun(ctx.on_begin_run(payload.input))


class RunPayload(BuiltInPayload):
    workflow: str
    input: Any = None


@job_type(RUN_TYPE, timeout_seconds=60, batch_size=20, payload=RunPayload)
def run(ctx: Context, payload: RunPayload) -> dict[str, str]:
    """Begin the inner run that a task is."""
    return _begun(ctx.on_begin_inner(payload.workflow, payload.input))


def _begun(run_id: UUID | None) -> dict[str, str]:
    if run_id is None:  # the firing was cancelled or taken over, or its workflow is deleted
        raise Cancelled
    return {"workflow_run_id": str(run_id)}

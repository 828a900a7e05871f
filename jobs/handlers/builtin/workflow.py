"""``carillon.workflow``: the schedule of a workflow, as a job of Carillon's own. Each of its firings begins a run."""

from typing import Any

from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.context import Context
from jobs.handlers.outcome import Cancelled
from jobs.handlers.registry import job_type


class WorkflowPayload(BuiltInPayload):
    input: Any = None


@job_type(SCHEDULE_TYPE, timeout_seconds=60, batch_size=20, payload=WorkflowPayload)
def workflow(ctx: Context, payload: WorkflowPayload) -> dict[str, str]:
    """Begin a run of a workflow."""
    run_id = ctx.on_begin_run(payload.input)
    if run_id is None:  # the firing was cancelled or taken over, or the workflow is deleted
        raise Cancelled
    return {"workflow_run_id": str(run_id)}

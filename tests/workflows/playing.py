"""Workflow runs, played by hand: dispatch, claim and finish by the statements that beats and workers use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from jobs.actions.workflows import definitions, runs
from jobs.core.states import AttemptState, TriggerState
from jobs.models import TaskRun, Trigger, Workflow, WorkflowRun, WorkflowTask
from jobs.store import execution
from jobs.store.execution import ClaimToken, Finish
from tenants.models import Tenant
from tests import factories

#: task -> how its trigger ends; the other tasks succeed.
Ends = Mapping[str, str]


def make_workflow(tenant: Tenant, *edges: Sequence[str], **options: Any) -> Workflow:
    """A workflow of ``noop``s. An edge is ``(before, after)``, or has a condition, too. ``whens``, ``payloads``,
    ``waits``, ``maps`` and ``inner`` (their ``workflow``) are by task. ``tasks``: tasks without edges.
    """
    whens, payloads = options.pop("whens", {}), options.pop("payloads", {})
    waits, maps, inner = options.pop("waits", {}), options.pop("maps", {}), options.pop("inner", {})
    plain = {"job_type": options.pop("job_type", "noop")}

    def what(key: str) -> dict[str, Any]:
        if key in waits:
            return {"wait": waits[key]}
        return {"workflow": inner[key]} if key in inner else plain | {"payload": payloads.get(key, {})}

    keys = dict.fromkeys([*options.pop("tasks", ()), *(key for edge in edges for key in edge[:2])])
    document = {
        "name": options.pop("name", f"workflow-{factories.now().timestamp()}"),
        "tasks": {
            key: {"when": whens.get(key, "all_success")}
            | what(key)
            | ({"map": maps[key]} if key in maps else {})
            for key in keys
        },
        "edges": [dict(zip(("before", "after", "on"), edge, strict=False)) for edge in edges],
        **options,
    }
    return definitions.create_workflow(tenant=tenant, definition=document)


def begin(workflow: Workflow, **options: Any) -> WorkflowRun:
    return runs.run_workflow(tenant=workflow.tenant, workflow_id=workflow.id, **options)


def claim_due() -> list[Any]:
    """Dispatch all due triggers, and claim them."""
    messages = factories.dispatch(limit=1000)
    return factories.claim(*Trigger.objects.filter(state=TriggerState.QUEUED)) if messages else []


def key_of(trigger_id: UUID) -> str:
    task_run = TaskRun.objects.select_related("run").get(id=trigger_id)
    return WorkflowTask.objects.get(version_id=task_run.run.version_id, number=task_run.task).key


def finish(rows: Sequence[Any], ends: Callable[[Any], str], *, result: object = None) -> None:
    """Write the outcomes of claimed rows in one statement, as a worker does."""
    reasons = {"dead": "exhausted", "cancelled": "requested"}
    execution.finish(
        [
            Finish(
                token=ClaimToken(row.id, row.fence),
                attempt_id=row.attempt_id,
                attempt_started_at=row.attempt_started_at,
                state=TriggerState(state),
                attempt_state=AttemptState(state if state in ("succeeded", "cancelled") else "failed"),
                reason=reasons.get(state, ""),
                result=result,
            )
            for row in rows
            for state in [ends(row)]
        ]
    )


def play(run: WorkflowRun, ends: Ends | None = None) -> list[list[str]]:
    """Let the run go on until nothing is due. Returns the tasks that were started together, step by step."""
    steps = []
    while rows := claim_due():
        steps.append(sorted(key_of(row.id) for row in rows))
        finish(rows, lambda row: (ends or {}).get(key_of(row.id), "succeeded"))
    run.refresh_from_db()
    return steps


def states(run: WorkflowRun) -> dict[str, str]:
    """task -> its state, with the reason if it was skipped."""
    keys = dict(WorkflowTask.objects.filter(version_id=run.version_id).values_list("number", "key"))
    return {
        keys[one.task]: f"{one.state} {one.reason}" if one.state == "skipped" else one.state
        for one in TaskRun.objects.filter(run=run, item=None)
    }

"""Begin, read, pause, cancel and retry runs of workflows (ADR 32)."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from jobs.actions.jobs import parse_id
from jobs.actions.workflows.definitions import find_version, find_workflow
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.core.json_rules import check_json
from jobs.core.workflows.states import RunState
from jobs.models import Change, TaskRun, Trigger, Workflow, WorkflowRun
from jobs.shapes.workflow.run import OneRun
from jobs.store import db, trail
from jobs.store import workflows as store
from jobs.wakeups import wake_beats
from tenants.models import Tenant


def run_workflow(*, tenant: Tenant, workflow_id: UUID | str, run_input: object = None) -> WorkflowRun:
    """Begin a run of the present version. Not idempotent: every call is another run.

    Raises ``InvalidInput`` (``input``), ``NotFound``.
    """
    check_input(tenant, run_input)
    while True:
        workflow = find_workflow(tenant=tenant, workflow_id=workflow_id)
        version = find_version(workflow, workflow.version)
        with db.atomic():
            run_id = store.begin_run(
                workflow_id=workflow.id, version_id=version.id, tasks=version.task_count, run_input=run_input
            )
            if run_id is not None:
                note(workflow, Change.Action.RUN, {"run": [None, str(run_id)]})
                wake_beats()
                return runs_of(tenant).get(id=run_id)
        # It is deleted, or another run has this very microsecond; the clock moves on.


def check_input(tenant: Tenant, run_input: object) -> None:
    """Refuse an input that no run can begin with. Raises ``InvalidInput`` (``input``)."""
    check_json(run_input, field="input", max_bytes=tenant.max_payload_bytes, quota="max_payload_bytes")


def cancel_run(*, tenant: Tenant, run_id: UUID | str) -> WorkflowRun:
    """Start nothing more of a run, end its waiting tasks and ask its running ones to stop. May be repeated.

    Commits in two steps: call it outside a transaction (``store.workflows.begin_cancel`` says why). Raises ``Conflict``
    if the run has ended otherwise, ``NotFound``.
    """
    run = begin_cancel(tenant=tenant, run_id=run_id)
    if run.state == RunState.RUNNING:
        store.cancel_started(run_id=run.id, tenant_id=tenant.id)
        run = runs_of(tenant).get(id=run.id)
    return run


def begin_cancel(*, tenant: Tenant, run_id: UUID | str) -> WorkflowRun:
    """The first step of ``cancel_run``: from here on nothing more of the run starts. Raises the same errors."""
    found = find_run(tenant=tenant, run_id=run_id)
    with db.atomic():
        done = store.begin_cancel(run_id=found.id, tenant_id=tenant.id)
        run = runs_of(tenant).get(id=found.id)
        if not done and not run.cancel_requested:
            raise Conflict(f"The run has already ended: it is {run.state}.")
        if done and not found.cancel_requested:
            note(run.workflow, Change.Action.CANCELLED, {"run": [str(run.id), None]})
    return run


def pause_run(*, tenant: Tenant, run_id: UUID | str) -> WorkflowRun:
    """Start nothing more of a run; started tasks go on. May be repeated. Raises ``Conflict``, ``NotFound``."""
    return _steer(tenant, run_id, store.pause_run)


def resume_run(*, tenant: Tenant, run_id: UUID | str) -> WorkflowRun:
    """Start the ready tasks of a paused run. May be repeated. Raises ``Conflict``, ``NotFound``."""
    run = _steer(tenant, run_id, store.resume_run)
    wake_beats()
    return run


def _steer(tenant: Tenant, run_id: UUID | str, change: Callable[..., bool]) -> WorkflowRun:
    found = find_run(tenant=tenant, run_id=run_id)
    with db.atomic():
        done = change(run_id=found.id, tenant_id=tenant.id)
        run = runs_of(tenant).get(id=found.id)
        if not done:
            raise Conflict(f"The run has ended: it is {run.state}.")
        was, now = found.paused_at is not None, run.paused_at is not None
        if was != now:
            note(run.workflow, Change.Action.UPDATED, {"run": [str(run.id)] * 2, "paused": [was, now]})
    return run


def retry_run(
    *, tenant: Tenant, run_id: UUID | str, tasks: Sequence[str] = (), skip: Sequence[str] = ()
) -> WorkflowRun:
    """Let an ended run go on: ``tasks``, or without any those that did not succeed, begin again, and all downstream.

    Other tasks that succeeded are kept, with their results. ``skip``: tasks that failed or were cancelled, and count as
    succeeded from here on. If no ``tasks`` are named with them, only tasks that a failure had kept from starting begin
    again. Raises ``InvalidInput`` (``tasks[n]``, ``skip[n]``), ``Conflict`` when the run goes on, has nothing to retry,
    a task to skip did not fail, or its workflow is deleted, ``NotFound``.
    """
    found = find_run(tenant=tenant, run_id=run_id)
    said = f"No task of version {found.version.number} of this workflow has this name."
    wrong = {
        f"{field}[{nth}]": said
        for field, names in (("tasks", tasks), ("skip", skip))
        for nth in store.unknown_tasks(version_id=found.version_id, tasks=names)
    }
    both = {f"skip[{nth}]": "It is also in tasks." for nth, name in enumerate(skip) if name in tasks}
    if wrong or both:
        raise InvalidInput(both | wrong)
    with db.atomic():
        done = store.retry_run(run_id=found.id, tenant_id=tenant.id, tasks=tasks, skip=skip)
        run = runs_of(tenant).get(id=found.id)
        if not done and run.workflow.deleted_at is not None:
            raise Conflict("The workflow of this run is deleted.")
        if not done:
            has = "has not ended" if run.state == RunState.RUNNING else "has nothing to retry"
            raise Conflict(f"The run {has}: it is {run.state}.")
        note(run.workflow, Change.Action.REPLAYED, {"run": [None, str(run.id)]})
        wake_beats()
    return run


def runs_of(tenant: Tenant) -> QuerySet[WorkflowRun]:
    """Each with its workflow, ``outer_run_id`` and its version without the definition, which may have megabytes."""
    runs = WorkflowRun.objects.filter(tenant=tenant).select_related("workflow", "version")
    task = TaskRun.objects.filter(id=OuterRef("trigger_id")).values("run_id")
    return runs.defer("version__definition").annotate(outer_run_id=Subquery(task))


def find_run(*, tenant: Tenant, run_id: UUID | str) -> WorkflowRun:
    """A run of the tenant's, also of a deleted workflow. Raises ``NotFound``."""
    found = runs_of(tenant).filter(id=parse_id(run_id, "workflow run")).first()
    if found is None:
        raise NotFound("There is no such workflow run.")
    return found


def tasks_of(run: WorkflowRun) -> list[dict[str, Any]]:
    """The tasks of a run with those that each waits for, by the names of ``TaskRunShape``, in one statement."""
    tasks = [row._asdict() for row in store.task_runs(run.id)]
    unfinished = {task["task"] for task in tasks if task["finished_at"] is None}
    for task in tasks:
        waits = task["state"] == "waiting"
        task["waits_for"] = [each["task"] for each in task["after"] if waits and each["task"] in unfinished]
    return tasks


def representation(run: WorkflowRun) -> dict[str, Any]:
    """A run with its tasks, as the API shows it."""
    return OneRun.of(run, tasks=tasks_of(run), workflow_name=run.workflow.name, version=run.version.number)


def items_of(run: WorkflowRun, task: str) -> QuerySet[TaskRun]:
    """The items of a map, each with ``trigger_id`` and ``inner_run_id``. Raises ``NotFound`` for no task of the run."""
    number = run.version.tasks.filter(key=task).values_list("number", flat=True).first()
    if number is None:
        raise NotFound("This run has no such task.")
    triggers = Trigger.objects.filter(id=OuterRef("id")).values("id")
    begun = WorkflowRun.objects.filter(trigger_id=OuterRef("id"), task_start__isnull=False)
    return TaskRun.objects.filter(run=run, task=number, item__isnull=False).annotate(
        trigger_id=Subquery(triggers), inner_run_id=Subquery(begun.order_by("-task_start").values("id")[:1])
    )


def note(workflow: Workflow, action: Change.Action, changes: dict[str, Any]) -> None:
    """An entry on the audit trail."""
    trail.note(
        tenant_id=workflow.tenant_id,
        kind=Change.Kind.WORKFLOW,
        object_id=workflow.id,
        name=workflow.name,
        action=action,
        changes=changes,
    )

"""Create, edit, restore, pause and delete workflows. Every edit is a new version; runs stay on theirs (ADR 32)."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet, Sum

from jobs.actions import definition as definitions
from jobs.actions.jobs import EditedMeanwhile, check_until, parse_id
from jobs.actions.notices import check_secrets_of
from jobs.actions.pull.types import Kind, Kinds, hold_type
from jobs.actions.workflows import schedules
from jobs.core.errors import Complaints, Conflict, InvalidInput, NotFound, QuotaExceeded
from jobs.core.json_rules import check_json, check_text, is_same
from jobs.core.workflows import flow, graph
from jobs.core.workflows.comparison import compare
from jobs.core.workflows.graph import Edge
from jobs.core.workflows.states import RUN_TYPE, WAIT_TYPE, RunState
from jobs.handlers import registry
from jobs.models import Job, Workflow, WorkflowRun, WorkflowVersion
from jobs.models.fields import new_id
from jobs.shapes.job import MAX_REASON
from jobs.shapes.workflow.comparison import Comparison
from jobs.shapes.workflow.definition import WorkflowDefinition
from jobs.store import db, lifecycle
from jobs.store import workflows as store
from tenants.clock import database_now
from tenants.models import Tenant
from tenants.quotas import MAX_JOBS

MAX_VERSIONS = 1_000
#: The most bytes of a definition: 1,000 tasks of four kilobytes each.
MAX_BYTES = 4 * 1024 * 1024


def create_workflow(*, tenant: Tenant, definition: object) -> Workflow:
    """Create a workflow at its first version.

    Raises ``InvalidInput`` by task or edge, ``Conflict`` (``name``), ``QuotaExceeded``: all workflows of a tenant
    together may have at most as many tasks as the tenant may have jobs.
    """
    draft = _draft(tenant, definition)
    name, now = draft.read.name, draft.now
    workflow = Workflow(tenant=tenant, name=name, created_at=now, updated_at=now, **_options(draft.read))
    _check_notify(tenant, draft.read, base=None)
    schedule = schedules.draft(workflow, draft.read, now=now)
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        _check_name(tenant, name)
        _check_room(tenant, len(draft.jobs))
        if schedule is not None:
            schedules.begin(schedule, workflow)
        workflow.save(force_insert=True)
        _write_version(workflow, draft)
    return workflow


def edit_workflow(
    *, tenant: Tenant, workflow_id: UUID | str, definition: object, expected_version: int | None = None
) -> Workflow:
    """Bring a workflow to ``definition``, the whole of it. The present definition makes no new version.

    Raises the errors of ``create_workflow``, ``NotFound``, and ``EditedMeanwhile`` if ``expected_version`` is not the
    present one.
    """
    draft = _draft(tenant, definition)
    with db.atomic():
        workflow = _lock(tenant, workflow_id, expected_version)
        _edit(workflow, draft)
    return workflow


def restore_version(
    *, tenant: Tenant, workflow_id: UUID | str, number: int, expected_version: int | None = None
) -> Workflow:
    """Edit a workflow back to its version ``number``. Raises the errors of ``edit_workflow``."""
    workflow = find_workflow(tenant=tenant, workflow_id=workflow_id)
    draft = _draft(tenant, find_version(workflow, number).definition)
    with db.atomic():
        workflow = _lock(tenant, workflow_id, expected_version)
        _edit(workflow, draft)
    return workflow


def delete_workflow(*, tenant: Tenant, workflow_id: UUID | str, expected_version: int | None = None) -> None:
    """Delete a workflow that has no unfinished run. Its runs stay readable until retention; then its hidden jobs go.

    Raises ``Conflict`` while it has a run, ``EditedMeanwhile``, ``NotFound``.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        # End firings of the schedule first: a worker that begins a run locks its firing, then the workflow.
        schedules.end(find_workflow(tenant=tenant, workflow_id=workflow_id))
        workflow = _found(workflows_of(tenant).select_for_update(), workflow_id, expected_version)
        if WorkflowRun.objects.filter(workflow=workflow, state=RunState.RUNNING).exists():
            raise Conflict("Runs of this workflow have not ended: cancel them, or wait for their end.")
        workflow.deleted_at, workflow.schedule_job_id = database_now(), None
        workflow.save(update_fields=["deleted_at", "schedule_job_id"])


def pause_workflow(
    *, tenant: Tenant, workflow_id: UUID | str, reason: str = "", until: datetime | None = None
) -> Workflow:
    """Begin no run by the schedule until it is resumed, by a beat at ``until``. May be repeated.

    Runs that have begun go on, and callers may begin others. Raises ``InvalidInput`` under ``reason``, or ``until``
    when that is past, ``Conflict`` without a schedule, ``NotFound``.
    """
    check_text(reason, field="reason", max_length=MAX_REASON)
    with db.atomic():
        workflow = _lock(tenant, workflow_id, None)
        check_until(until)
        schedules.pause(workflow, reason=reason, until=until)
    return workflow


def resume_workflow(*, tenant: Tenant, workflow_id: UUID | str) -> Workflow:
    """Let the schedule go on from now: firings that fell due meanwhile are ``skipped: paused``. May be repeated.

    Raises ``Conflict`` without a schedule, or if it can no longer be computed; ``NotFound``.
    """
    with db.atomic():
        workflow = _lock(tenant, workflow_id, None)
        schedules.resume(workflow)
    return workflow


def workflows_of(tenant: Tenant) -> QuerySet[Workflow]:
    """The tenant's workflows that are not deleted."""
    return Workflow.objects.filter(tenant=tenant, deleted_at=None)


def find_workflow(*, tenant: Tenant, workflow_id: UUID | str) -> Workflow:
    """A living workflow of the tenant. Raises ``NotFound``."""
    return _found(workflows_of(tenant), workflow_id)


def find_version(workflow: Workflow, number: int) -> WorkflowVersion:
    """A version of a workflow. Raises ``NotFound``."""
    found = WorkflowVersion.objects.filter(workflow=workflow, number=number).first()
    if found is None:
        raise NotFound("There is no such version of this workflow.")
    return found


def compare_versions(*, tenant: Tenant, workflow_id: UUID | str, before: int, after: int) -> dict[str, Any]:
    """The effects of an edit of a workflow from one version to another, as the API shows them. Raises ``NotFound``."""
    workflow = find_workflow(tenant=tenant, workflow_id=workflow_id)
    old, new = (
        WorkflowDefinition.read_back(find_version(workflow, number).definition) for number in (before, after)
    )
    found = Comparison(before=before, after=after, **compare(old, new))
    edges = found.model_dump(mode="json", include={"edges_added", "edges_removed"})
    return found.model_dump(mode="json", exclude_unset=True) | edges


def _lock(tenant: Tenant, workflow_id: UUID | str, expected_version: int | None) -> Workflow:
    """The workflow, locked against other edits; runs of it may begin. The tenant's row comes first, for its quota."""
    lifecycle.lock_tenant(tenant.id)
    locked = workflows_of(tenant).select_for_update(no_key=True)
    return _found(locked, workflow_id, expected_version)


def _found(
    among: QuerySet[Workflow], workflow_id: UUID | str, expected_version: int | None = None
) -> Workflow:
    found = among.filter(id=parse_id(workflow_id, "workflow")).first()
    if found is None:
        raise NotFound("There is no such workflow.")
    if expected_version not in (None, found.version):
        raise EditedMeanwhile(f"The workflow is now at version {found.version}.")
    return found


def _edit(workflow: Workflow, draft: "_Draft") -> None:
    present = find_version(workflow, workflow.version)
    if is_same(WorkflowDefinition.read_back(present.definition), draft.written):
        return
    if workflow.version >= MAX_VERSIONS:
        raise Conflict(f"A workflow has at most {MAX_VERSIONS:,} versions: create another one instead.")
    if draft.read.name != workflow.name:
        _check_name(workflow.tenant, draft.read.name)
    _check_room(workflow.tenant, len(draft.jobs) - present.task_count)
    _check_notify(workflow.tenant, draft.read, base=workflow)
    options = _options(draft.read)
    for option, value in options.items():
        setattr(workflow, option, value)
    workflow.name, workflow.version, workflow.updated_at = draft.read.name, workflow.version + 1, draft.now
    schedules.bring(workflow, draft.read, now=draft.now)
    workflow.save(update_fields=["name", "version", "updated_at", "schedule_job_id", *options])
    _write_version(workflow, draft)


def _options(read: WorkflowDefinition) -> dict[str, Any]:
    """The columns of the workflow itself, with their values; they hold for runs of every version."""
    return {"labels": read.labels, "notify": read.stored_notify}


def _check_notify(tenant: Tenant, read: WorkflowDefinition, *, base: Workflow | None) -> None:
    errors = Complaints()
    errors.collect(lambda: check_secrets_of(read.stored_notify, tenant=tenant, base=base), under="notify")
    errors.finish()


def _check_name(tenant: Tenant, name: str) -> None:
    if workflows_of(tenant).filter(name=name).exists():
        raise Conflict(f"There is already a workflow named {name}.", field="name")


def _check_room(tenant: Tenant, more: int) -> None:
    present = WorkflowVersion.objects.filter(workflow__in=workflows_of(tenant), number=F("workflow__version"))
    used = present.aggregate(used=Sum("task_count"))["used"] or 0
    if more > 0 and used + more > tenant.max_jobs:
        raise QuotaExceeded(MAX_JOBS.name, limit=tenant.max_jobs, used=used)


class _Draft(NamedTuple):
    """A valid definition, with a job for each task: all that can be done before a lock is taken."""

    read: WorkflowDefinition
    edges: list[Edge]
    jobs: dict[str, Job]
    now: datetime

    @property
    def written(self) -> dict[str, Any]:
        return self.read.model_dump(mode="json")


def _draft(tenant: Tenant, definition: object) -> _Draft:
    """Raises ``InvalidInput`` with the path of every fault: of fields, then of the graph, then of tasks as jobs."""
    check_json(definition, field="", max_bytes=MAX_BYTES)
    read = WorkflowDefinition.read(definition)
    edges = [Edge(edge.before, edge.after, edge.on) for edge in read.edges]
    found = graph.faults({key: task.when for key, task in read.tasks.items()}, edges)
    # A reference may only name tasks that are upstream, and only a valid graph tells these.
    runs = {key for key, task in read.tasks.items() if task.workflow is not None and task.map is None}
    taking = {key: task.taking() for key, task in read.tasks.items()}
    if found := found or flow.faults(taking, edges, runs=runs) or _unknown_workflows(tenant, read):
        raise InvalidInput(found)
    now = database_now()
    return _Draft(read, edges, _hidden_jobs(tenant, read, now), now)


class _TaskKinds(Kinds):
    """Job types for payloads of tasks: the attempt that gets a value from elsewhere checks that value."""

    def __call__(self, name: object) -> Kind:
        kind = super().__call__(name)
        return replace(kind, check=partial(_check_aside, kind))


class _OwnKinds(Kinds):
    """The types of waits and of runs alone, whose shapes have read their payloads."""

    def __call__(self, name: object) -> Kind:
        own = registry.get(WAIT_TYPE if name == WAIT_TYPE else RUN_TYPE)
        return Kind(own.name, own.timeout, lambda payload: None)


def _unknown_workflows(tenant: Tenant, read: WorkflowDefinition) -> dict[str, str]:
    """Faults of the workflows that tasks name to run, by ``tasks.<key>.workflow.name``.

    These may be edited and deleted later, so the start of a task checks once more (``store.begin_inner``).
    """
    named = {key: task.workflow.name for key, task in read.tasks.items() if task.workflow is not None}
    known = {*workflows_of(tenant).filter(name__in=set(named.values())).values_list("name", flat=True)}
    return {
        f"tasks.{key}.workflow.name": "A workflow cannot be a task of itself."
        if name == read.name
        else f"There is no workflow named {name}."
        for key, name in named.items()
        if name == read.name or name not in known
    }


def _check_aside(kind: Kind, payload: Any) -> None:
    try:
        kind.check(payload)
    except InvalidInput as refused:
        if left := flow.without_taken(refused.errors, payload):
            raise InvalidInput(left) from None
    if kind.target is not None:
        try:
            kind.target(payload)
        except TypeError:
            raise InvalidInput({"payload": f"{flow.FROM} cannot be used for the target of a task."}) from None


def _hidden_jobs(tenant: Tenant, read: WorkflowDefinition, now: datetime) -> dict[str, Job]:
    """The job of each task, with a name that tells its task. Raises ``InvalidInput`` under ``tasks.<key>``."""
    errors, jobs, kinds, own = Complaints(), {}, _TaskKinds(tenant), _OwnKinds(tenant)
    for key, task in read.tasks.items():
        job_id = new_id()
        document = task.as_job(key, f"{read.name[: schedules.SHOWN_NAME]}/{key} ({job_id.hex[-12:]})")
        read_job = partial(
            definitions.parse, document, tenant=tenant, now=now, kinds=kinds if task.job_type else own
        )
        if columns := errors.collect(read_job, under=f"tasks.{key}"):
            jobs[key] = Job(
                id=job_id, tenant=tenant, created_at=now, updated_at=now, **columns | {"next_fire_at": None}
            )
    errors.finish()
    return jobs


def _write_version(workflow: Workflow, draft: _Draft) -> None:
    for job in draft.jobs.values():
        job.workflow_id = workflow.id
    for job_type in sorted({job.job_type for job in draft.jobs.values()}):
        hold_type(job_type)
    version = WorkflowVersion.objects.create(
        workflow=workflow,
        number=workflow.version,
        definition=draft.written,
        task_count=len(draft.jobs),
        halts=draft.read.on_failure == "halt",
        max_parallel=draft.read.max_parallel,
        deadline=draft.read.deadline_seconds and timedelta(seconds=draft.read.deadline_seconds),
        created_at=workflow.updated_at,
    )
    whens = {key: task.when for key, task in draft.read.tasks.items()}
    maps = {
        key: store.Map(task.map.over[flow.FROM], task.map.max_parallel)
        for key, task in draft.read.tasks.items()
        if task.map is not None
    }
    if taken := store.insert_graph(version, whens=whens, edges=draft.edges, jobs=draft.jobs, maps=maps):
        raise Conflict(
            f"A job has the name that task {min(taken)} would have: {draft.jobs[min(taken)].name}."
        )

"""The schedule of a workflow: a hidden job of it, whose firings begin runs (ADR 32).

It is one job through all versions of the workflow, so its ledger goes on. It is edited as jobs are: firings that are
due already run, and the new schedule makes the firings ahead. The caller holds the lock of the tenant's row.
"""

from collections.abc import Callable
from datetime import datetime

from django.db.models import OuterRef, QuerySet, Subquery

from jobs.actions.bulk import edits, statuses
from jobs.actions.drafts import draft_job
from jobs.actions.pull.types import Kind, Kinds
from jobs.core.errors import Conflict
from jobs.core.json_rules import check_json
from jobs.core.states import JobStatus
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.handlers import registry
from jobs.models import Change, Job, Workflow
from jobs.shapes.workflow.definition import WorkflowDefinition
from jobs.store import jobs as job_store
from jobs.store import trail
from jobs.wakeups import wake_beats
from tenants.models import Tenant

#: The most characters of its workflow's name in the name of a hidden job.
SHOWN_NAME = 100


def draft(workflow: Workflow, read: WorkflowDefinition, *, now: datetime) -> Job | None:
    """The job that the schedule of a workflow's definition asks for, not yet written; None: it has no schedule.

    Raises ``InvalidInput`` by field, as a job does.
    """
    tenant = workflow.tenant
    _check_input(read, tenant)
    if read.schedule is None:
        return None
    document = read.schedule_as_job(_name(workflow, read))
    return draft_job(tenant=tenant, definition=document, now=now, kinds=_ScheduleKinds(tenant))


def begin(job: Job, workflow: Workflow) -> None:
    """Write the job of a schedule and make it the workflow's. The caller saves the workflow."""
    job.workflow_id = workflow.id
    if not job_store.insert([job]):
        raise Conflict(f"A job has the name that the schedule would have: {job.name}.")
    workflow.schedule_job_id = job.id
    if job.next_fire_at is not None:
        wake_beats(due_in=job.next_fire_at - job.created_at)


def bring(workflow: Workflow, read: WorkflowDefinition, *, now: datetime) -> None:
    """Give a locked workflow the schedule of a new definition. The caller saves the workflow.

    Raises ``InvalidInput`` by field.
    """
    job = lock(workflow)
    if job is None:
        if (job := draft(workflow, read, now=now)) is not None:
            begin(job, workflow)
    elif read.schedule is None:
        end(workflow)
    else:
        tenant = workflow.tenant
        _check_input(read, tenant)
        document = read.schedule_as_job(_name(workflow, read))
        done = edits.edit([job], tenant=tenant, changes=document, whole=True, kinds=_ScheduleKinds(tenant))
        for why in done.refused.values():
            raise why


def end(workflow: Workflow) -> None:
    """Fire no more: waiting firings are cancelled. The runs that have begun go on. The caller saves the workflow."""
    if (job := lock(workflow)) is not None:
        statuses.delete([job])
        workflow.schedule_job_id = None


def lock(workflow: Workflow) -> Job | None:
    """The job that is the workflow's schedule, with its materializing shut out until the transaction ends."""
    if workflow.schedule_job_id is None:
        return None
    return Job.with_hidden.select_for_update(no_key=True).get(id=workflow.schedule_job_id)


def pause(workflow: Workflow, *, reason: str = "", until: datetime | None = None) -> None:
    """Begin no run by the schedule of a locked workflow until it is resumed. Raises ``Conflict`` without a schedule."""
    _steer(workflow, lambda jobs: statuses.pause(jobs, reason=reason, until=until))


def resume(workflow: Workflow) -> None:
    """Let the schedule of a locked workflow go on from now.

    Raises ``Conflict`` without one, or if it can no longer be computed.
    """
    _steer(workflow, statuses.resume)


def locked(workflow: Workflow) -> Job:
    """As ``lock``. Raises ``Conflict`` where there is no schedule."""
    return _there(lock(workflow))


def read(workflow: Workflow) -> Job:
    """The job that is the workflow's schedule, for reading. Raises ``Conflict`` where there is none."""
    job_id = workflow.schedule_job_id
    return _there(None if job_id is None else Job.with_hidden.get(id=job_id))


def _there(job: Job | None) -> Job:
    if job is None:
        raise Conflict("The workflow has no schedule.")
    return job


def with_schedules(workflows: QuerySet[Workflow]) -> QuerySet[Workflow]:
    """Each with the fields of its schedule that ``WorkflowShape`` and ``OneWorkflow`` show; null if it has none."""
    jobs = Job.with_hidden.filter(id=OuterRef("schedule_job_id"))
    return workflows.annotate(
        next_fire_at=Subquery(jobs.filter(status=JobStatus.ACTIVE).values("next_fire_at")),
        schedule_status=Subquery(jobs.values("status")),
        schedule_status_reason=Subquery(jobs.values("status_reason")),
        schedule_paused_until=Subquery(jobs.values("paused_until")),
    )


def _steer(workflow: Workflow, change: Callable[[list[Job]], statuses.Refusals]) -> None:
    job = locked(workflow)
    was = job.status
    for why in change([job]).values():
        raise Conflict(why)
    if job.status != was:
        trail.note(
            tenant_id=workflow.tenant_id,
            kind=Change.Kind.WORKFLOW,
            object_id=workflow.id,
            name=workflow.name,
            action=Change.Action.UPDATED,
            changes={"schedule_status": [str(was), str(job.status)]},
        )


def _check_input(read: WorkflowDefinition, tenant: Tenant) -> None:
    check_json(read.input, field="input", max_bytes=tenant.max_payload_bytes, quota="max_payload_bytes")


def _name(workflow: Workflow, read: WorkflowDefinition) -> str:
    return f"{read.name[:SHOWN_NAME]} (schedule {workflow.id.hex[-12:]})"


class _ScheduleKinds(Kinds):
    """The tenant's types, and the one type that schedules of workflows have, and no job of a tenant's."""

    def __call__(self, name: object) -> Kind:
        if name != SCHEDULE_TYPE:
            return super().__call__(name)
        kind = registry.get(SCHEDULE_TYPE)
        return Kind(kind.name, kind.timeout, lambda payload: registry.validate_payload(kind.name, payload))

"""Actions on jobs: create, edit, pause, resume, cancel, delete, run now (DESIGN §9 "Edits").

The API, the admin and the commands write through these functions alone. Each runs in one transaction. Functions that
change whether something may start lock the tenant first, which keeps dispatch away, and then the job, which keeps the
materializer away. So an acknowledged change holds for every firing after it (DESIGN §2.8). Times come from the
database's clock.

A job that is not the tenant's, is deleted, or whose id is no UUID raises ``NotFound``. Edits and changes of state may
be repeated: to pause a paused job, resume an active one or cancel a cancelled one changes nothing. ``create_job``
refuses a name that is taken, and each ``run_job_now`` makes another trigger.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.actions import definition as definitions
from jobs.actions.bulk import edits, statuses
from jobs.actions.bulk.edits import name_taken
from jobs.actions.drafts import draft_job
from jobs.actions.overdue import materialize
from jobs.actions.pull.types import Kinds, hold_type, own_name
from jobs.core.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from jobs.core.instants import LATEST
from jobs.core.json_rules import check_text
from jobs.core.pull import is_pull
from jobs.core.states import JobStatus
from jobs.models import Change, Job, Origin, Trigger
from jobs.models.fields import new_id
from jobs.shapes.job import MAX_REASON
from jobs.store import db, lifecycle, trail
from jobs.store import jobs as job_store
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant
from tenants.quotas import MAX_JOBS

#: With more room than this no lock is needed: too few jobs can be created between check and commit to exceed the quota.
_QUOTA_MARGIN = 5000
#: More than two tries mean that other calls create and delete a job of this name all the while.
_TRIES = 5
#: The label that tells test sends from jobs that are needed.
TEST_SEND = ("carillon", "test-send")


class EditedMeanwhile(Conflict):
    """The job's version is not the one the caller meant to change (HTTP 412)."""


def create_job(*, tenant: Tenant, definition: object) -> Job:
    """Create a job of ``tenant`` from the API's JSON shape (DESIGN §10); it is active at once.

    A one-time or immediate job may leave its name out and gets one. Raises ``InvalidInput`` with every faulty field,
    ``Conflict`` (field ``name``) when a living job has the name, ``QuotaExceeded`` (``max_jobs``).
    """
    job_type = own_name(definition.get("job_type"), tenant=tenant) if isinstance(definition, dict) else ""
    now, used, declared = job_store.before_creation(tenant_id=tenant.id, job_type=job_type)
    kinds = Kinds(tenant, undeclared=() if declared else (job_type,))
    job = draft_job(tenant=tenant, definition=definition, now=now, kinds=kinds)
    # If no lock against other calls is needed, the one statement that writes the job needs no transaction around it.
    near = used + 1 + _QUOTA_MARGIN > tenant.max_jobs
    with db.atomic() if near or is_pull(job.job_type) else nullcontext():
        if near and not room_for(tenant, 1):
            raise over_quota(tenant)
        hold_type(job.job_type)
        if not job_store.insert([job]):
            raise name_taken(job.name)
        if job.next_fire_at is not None:
            wake_beats(due_in=job.next_fire_at - now)
    return job


def update_job(
    *,
    tenant: Tenant,
    job_id: UUID | str,
    changes: object,
    expected_version: int | None = None,
    whole: bool = False,
) -> Job:
    """Edit a job: ``changes`` is a JSON merge patch over its representation, or with ``whole`` its full definition.

    Makes a new version: firings ahead are withdrawn and materialized again, triggers that are due already run under the
    new version, running attempts finish under the old. A change of name, labels and notices alone leaves every firing
    where it is. If nothing changes, the version stays. Raises ``InvalidInput``, ``Conflict`` (name taken; the job is
    cancelled or completed), ``EditedMeanwhile`` (``expected_version`` is not the present one), ``NotFound``.
    """
    with db.atomic():
        job = lock_job(tenant, job_id, expected_version)
        for why in edits.edit([job], tenant=tenant, changes=changes, whole=whole).refused.values():
            raise why
        return job


def put_job(
    *,
    tenant: Tenant,
    name: str,
    definition: object,
    expected_version: int | None = None,
    exists: bool | None = None,
) -> tuple[Job, bool]:
    """Bring the living job of that ``name`` to ``definition``, the whole of it; returns it and whether it was created.

    A field that ``definition`` leaves out goes back to its default. A definition that the job has already changes
    nothing, and makes no version; so the call may be repeated, and made by several at once. ``exists`` says whether the
    job must exist before (None: either). Raises ``EditedMeanwhile`` when it is otherwise, and the errors of creating or
    editing.
    """
    check_text(name, field="name", max_length=200)
    if isinstance(definition, dict):
        if definition.get("name") not in (None, name):
            raise InvalidInput({"name": "Differs from the name in the path; leave it out."})
        definition = {**definition, "name": name}
    for _ in range(_TRIES):
        if not Job.objects.filter(tenant=tenant, deleted_at=None, name=name).exists():
            if exists:
                raise EditedMeanwhile("There is no job with this name.")
            try:
                return create_job(tenant=tenant, definition=definition), True
            except Conflict as error:
                if error.field != "name":
                    raise
        if exists is False:
            raise EditedMeanwhile("A job with this name exists.")
        with db.atomic():
            # Under this lock no other call renames or deletes a job of the tenant.
            lifecycle.lock_tenant(tenant.id)
            found = Job.objects.filter(tenant=tenant, deleted_at=None, name=name).first()
            if found is not None:
                edited = update_job(
                    tenant=tenant,
                    job_id=found.id,
                    changes=definition,
                    expected_version=expected_version,
                    whole=True,
                )
                return edited, False
    raise Conflict("Other calls create and delete this job at the same time; try again.")


def pause_job(
    *,
    tenant: Tenant,
    job_id: UUID | str,
    expected_version: int | None = None,
    reason: str = "",
    until: datetime | None = None,
) -> Job:
    """Start nothing more of this job until it is resumed, by a beat at ``until``; running attempts finish.

    A job that is paused already takes on ``reason`` and ``until``, if either is given. Raises ``InvalidInput`` under
    ``reason``, or ``until`` when that is past, ``Conflict``, ``NotFound``.
    """
    check_text(reason, field="reason", max_length=MAX_REASON)
    with db.atomic():
        job = lock_job(tenant, job_id, expected_version)
        check_until(until)
        return _unless_refused(job, statuses.pause([job], reason=reason, until=until))


def check_until(until: datetime | None) -> None:
    """Refuse an end of a pause that is past: raises ``InvalidInput`` under ``until``."""
    if until is not None and not database_now() < until < LATEST:
        raise InvalidInput({"until": "Must lie in the future, before 2100."})


def resume_job(*, tenant: Tenant, job_id: UUID | str, expected_version: int | None = None) -> Job:
    """Let a paused job go on from now: firings that fell due meanwhile are ``skipped: paused``.

    Raises ``Conflict`` when it is cancelled or completed, or its schedule can no longer be computed; ``NotFound``.
    """
    with db.atomic():
        job = lock_job(tenant, job_id, expected_version)
        return _unless_refused(job, statuses.resume([job]))


def cancel_job(*, tenant: Tenant, job_id: UUID | str, expected_version: int | None = None) -> Job:
    """End a job for good: waiting triggers are cancelled, running ones are asked to stop. Raises ``NotFound``."""
    with db.atomic():
        job = lock_job(tenant, job_id, expected_version)
        return _unless_refused(job, statuses.cancel([job]))


def delete_job(*, tenant: Tenant, job_id: UUID | str, expected_version: int | None = None) -> Job:
    """Cancel a job and take it out of sight; its name is free again and its history stays.

    Raises ``NotFound``, ``EditedMeanwhile``.
    """
    with db.atomic():
        job = lock_job(tenant, job_id, expected_version)
        return _unless_refused(job, statuses.delete([job]))


def run_job_now(
    *, tenant: Tenant, job_id: UUID | str, payload: object = None, ignore_overlap: bool = False
) -> Trigger:
    """Make a trigger that is due now, beside the schedule, with its own idempotency key.

    A ``payload`` takes the place of the job's, for this trigger alone. ``ignore_overlap``: it starts though others of
    its job run, under every overlap policy of the job. Not idempotent: every call is another firing.
    Raises ``InvalidInput`` under ``payload``, ``Conflict`` when the job is paused or cancelled, ``NotFound``.
    """
    with db.atomic():
        # Locks nothing, so that a flood of these neither waits for dispatch nor keeps it from the tenant. Dispatch
        # heeds a pause or cancel that overtakes it.
        job = find_job(tenant=tenant, job_id=job_id)
        if job.status in (JobStatus.PAUSED, JobStatus.CANCELLED):
            raise Conflict(f"The job is {job.status} and cannot be run.")
        if payload is not None:
            definitions.check_payload(payload, job_type=job.job_type, tenant=tenant)
        key = f"job:{job.id}:run:{new_id()}"
        while True:
            # A trigger of the schedule may have this very microsecond; the clock moves on.
            created = materialize(
                job=job,
                instants=[database_now()],
                origin=Origin.RUN_BESIDE if ignore_overlap else Origin.RUN_NOW,
                key=key,
                trace=job_store.callers_trace_kept(),
            )
            if created:
                trigger = Trigger.objects.get(id=created[0])
                told: dict[str, Any] = {"trigger": [None, trigger.id]}
                if payload is not None:
                    trigger.payload = payload
                    trigger.save(update_fields=["payload"])
                    told["payload"] = None
                if ignore_overlap:
                    told["ignore_overlap"] = [None, True]
                trail.note(
                    tenant_id=tenant.id,
                    kind=Change.Kind.JOB,
                    object_id=job.id,
                    name=job.name,
                    action=Change.Action.RUN,
                    changes=told,
                )
                wake_beats()
                return trigger


def send_test(*, tenant: Tenant, payload: Any, timeout_seconds: float | None = None) -> Job:
    """Send the webhook that ``payload`` describes once, now, and never again. Returns its job.

    It is an immediate job of one attempt: the workers' own code sends it, from where they send, under the tenant's
    limits and the rules for addresses and targets, and it is on the trail as any job is. Raises ``InvalidInput`` under
    ``payload`` or ``timeout_seconds``, ``QuotaExceeded``.
    """
    key, word = TEST_SEND
    definition: dict[str, Any] = {
        "name": f"{word}-{new_id().hex[-12:]}",
        "labels": {key: word},
        "job_type": "webhook",
        "schedule": {"type": "immediate"},
        "payload": payload,
        "delivery": "at_most_once",
        "retry_policy": {"max_attempts": 1},
    }
    if timeout_seconds is not None:
        definition["timeout_seconds"] = timeout_seconds
    return create_job(tenant=tenant, definition=definition)


def is_test_send(job: Job) -> bool:
    key, word = TEST_SEND
    return bool(job.labels.get(key) == word)


def set_status(
    *, tenant: Tenant, job_id: UUID | str, status: object, expected_version: int | None = None
) -> Job:
    """Bring a job to ``status``: ``active`` resumes, ``paused`` pauses, ``cancelled`` cancels.

    Raises ``InvalidInput`` under ``status``, and the errors of the action.
    """
    actions = {"active": resume_job, "paused": pause_job, "cancelled": cancel_job}
    if not isinstance(status, str) or status not in actions:
        raise InvalidInput({"status": f"Must be one of {', '.join(actions)}."})
    return actions[status](tenant=tenant, job_id=job_id, expected_version=expected_version)


def find_job(*, tenant: Tenant, job_id: UUID | str) -> Job:
    """The living job of that id, for reading. Raises ``NotFound``."""
    job = Job.objects.filter(tenant=tenant, deleted_at=None, id=parse_id(job_id, "job")).first()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def find_job_by_name(*, tenant: Tenant, name: str) -> Job:
    """The living job of that name, for reading. Raises ``NotFound``."""
    try:
        check_text(name, field="name", max_length=200)
    except InvalidInput:
        # No job can have that name.
        raise NotFound("There is no such job.") from None
    job = Job.objects.filter(tenant=tenant, deleted_at=None, name=name).first()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def parse_id(given: UUID | str, noun: str) -> UUID:
    """``given`` as a UUID. Raises ``NotFound`` if it is none, because no object can have it as its id."""
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise NotFound(f"There is no such {noun}.") from None


def lock_job(tenant: Tenant, job_id: UUID | str, expected_version: int | None = None) -> Job:
    """The living job, with dispatch of its tenant and materializing of itself shut out until the transaction ends.

    Raises ``NotFound``, and ``EditedMeanwhile`` unless it is at the ``expected_version`` (None: any).
    """
    wanted = parse_id(job_id, "job")
    lifecycle.lock_tenant(tenant.id)
    living = Job.objects.filter(tenant=tenant, deleted_at=None, id=wanted)
    job = living.select_for_update(no_key=True).first()
    if job is None:
        raise NotFound("There is no such job.")
    if expected_version is not None and job.version != expected_version:
        raise EditedMeanwhile(f"The job is at version {job.version}, not {expected_version}; read it again.")
    return job


def lock_jobs(tenant: Tenant, job_ids: Sequence[UUID], *, whole: bool = False) -> list[Job]:
    """Those of ``job_ids`` that are living jobs of the tenant, by id, locked as by ``lock_job``; without
    payload, labels and notify unless ``whole``."""
    lifecycle.lock_tenant(tenant.id)
    living = Job.objects.filter(tenant=tenant, deleted_at=None, id__in=job_ids).order_by("id")
    read = living if whole else living.defer("payload", "labels", "notify")
    return list(read.select_for_update(no_key=True))


def _unless_refused(job: Job, refusals: statuses.Refusals) -> Job:
    for why in refusals.values():
        raise Conflict(why)
    return job


def room_for(tenant: Tenant, wanted: int) -> int:
    """How many of ``wanted`` jobs the quota lets in. If it is near, other calls that create wait for our commit."""
    used = job_store.living(tenant.id)
    if used + wanted + _QUOTA_MARGIN > tenant.max_jobs:
        lifecycle.lock_tenant(tenant.id)
        used = job_store.living(tenant.id)
    return max(0, min(wanted, tenant.max_jobs - used))


def over_quota(tenant: Tenant) -> QuotaExceeded:
    """The refusal of a job beyond the quota."""
    return QuotaExceeded(MAX_JOBS.name, limit=tenant.max_jobs, used=job_store.living(tenant.id))

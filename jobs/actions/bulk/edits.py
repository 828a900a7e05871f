"""Editing jobs: one, or some hundreds of a tenant's by one merge patch (DESIGN §9 "Edits").

``PATCH /jobs/{id}``, the console's form and an operation's slice are all ``edit``. The caller holds the tenant's lock,
which keeps dispatch away, and the jobs', which keep the materializer away (``jobs.actions.jobs``), in a transaction of
its own. Each job is checked by itself. A job that refuses stays as it is, and the others are written by the same few
statements.
"""

import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError

from jobs.actions import definition as definitions
from jobs.actions import schedules
from jobs.actions.bulk import statuses
from jobs.actions.overdue import record
from jobs.actions.pull.types import Kinds, hold_type
from jobs.core.errors import CarillonError, Conflict
from jobs.core.json_rules import is_same
from jobs.core.schedule import next_fire
from jobs.core.states import ENDED_JOB, JobStatus
from jobs.models import Job, JobVersion
from jobs.store import db, lifecycle
from jobs.store import jobs as job_store
from jobs.store.catchup import walk as catchup
from jobs.store.operations import MAX_REFUSALS
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant

_NAME_TAKEN = "job_name_unique_among_living"
#: Columns of a job that affect no firing.
_INERT = frozenset({"name", "labels", "notify", "watched", "pause_after_failures", "delete_after"})
#: Columns that decide which missed firings run.
_MISFIRE = frozenset({"misfire_policy", "misfire_grace", "catchup_window", "max_catchup"})
MAX_JUDGING_SECONDS = 0.25
#: How many jobs a preview checks against the changes, and how many differences it shows.
PREVIEWED, MAX_DIFFERENCES = 200, 10


class Edited(NamedTuple):
    """The result for the first ``looked_at`` jobs: by id, why a job refused; the others are as the patch says."""

    looked_at: int
    refused: dict[UUID, CarillonError]


@dataclass
class _Edit:
    """The planned write of one job. ``closing``: missed firings go on record by the job as it was until now."""

    job: Job
    changed: dict[str, Any]
    next_fire_at: datetime | None
    inert: bool
    closing: bool


def edit(
    jobs: Sequence[Job], *, tenant: Tenant, changes: object, whole: bool = False, kinds: Kinds | None = None
) -> Edited:
    """Edit locked jobs of ``tenant``: ``changes`` is a JSON merge patch over each, or with ``whole`` a definition.

    Brings rows and objects to the new version; if nothing changes, the version stays. Stops where ``judge`` does.
    ``kinds``: given where jobs may be of other types than the tenant's. Raises ``InvalidInput`` when a pull type was
    just deleted.
    """
    catchup.hold(job_ids=[job.id for job in jobs if job.status not in ENDED_JOB])
    now = database_now()
    edits: list[_Edit] = []
    looked_at, refused = 0, {}
    for job, found in judge(jobs, tenant=tenant, changes=changes, whole=whole, now=now, kinds=kinds):
        looked_at += 1
        if isinstance(found, CarillonError):
            refused[job.id] = found
        elif found:
            try:
                edits.append(_planned(job, found, now))
            except CarillonError as error:
                refused[job.id] = error
    if edits:
        _write(edits, now)
    return Edited(looked_at, refused)


def judge(
    jobs: Sequence[Job],
    *,
    tenant: Tenant,
    changes: object,
    now: datetime,
    whole: bool = False,
    kinds: Kinds | None = None,
) -> Iterator[tuple[Job, dict[str, Any] | CarillonError]]:
    """Yield for each job the columns that ``changes`` would change, with their values, or why it refuses.

    Writes nothing. Stops, after one job at least, when it has taken ``MAX_JUDGING_SECONDS``, or has spent the share
    of one call for payloads with schemas of the tenant's own. A beat has other work, and no job may be refused
    because of the cost of others.
    """
    kinds, began = kinds or Kinds(tenant), time.monotonic()
    for nth, job in enumerate(jobs):
        if nth and (kinds.spent or time.monotonic() - began >= MAX_JUDGING_SECONDS):
            return
        try:
            yield job, _changed(job, tenant=tenant, changes=changes, now=now, whole=whole, kinds=kinds)
        except CarillonError as error:
            yield job, error


def preview(job_ids: Sequence[UUID], *, tenant: Tenant, changes: object) -> dict[str, Any]:
    """Preview ``changes`` for these jobs: how many were looked at, would change and would refuse, with the first
    ``MAX_DIFFERENCES`` and ``MAX_REFUSALS`` of them. Locks and writes nothing."""
    jobs = list(Job.objects.filter(tenant=tenant, deleted_at=None, id__in=job_ids).order_by("id"))
    judged = list(judge(jobs, tenant=tenant, changes=changes, now=database_now()))
    refused = [(job, found) for job, found in judged if isinstance(found, CarillonError)]
    changed = [(job, found) for job, found in judged if isinstance(found, dict) and found]
    return {
        "looked_at": len(judged),
        "changed": len(changed),
        "refused": len(refused),
        "differences": [
            {"id": job.id, "name": job.name, "changes": _difference(job, edited(job, found))}
            for job, found in changed[:MAX_DIFFERENCES]
        ],
        "refusals": [{"id": job.id, "detail": str(why)} for job, why in refused[:MAX_REFUSALS]],
    }


def _difference(before: Job, after: Job) -> dict[str, dict[str, Any]]:
    was, will_be = definitions.written(before), definitions.written(after)
    return {
        name: {"before": was[name], "after": value}
        for name, value in will_be.items()
        if not is_same(was[name], value)
    }


def edited(job: Job, changed: dict[str, Any]) -> Job:
    """The job as it would be. The job itself stays as it is."""
    after = copy(job)
    for name, value in changed.items():
        setattr(after, name, value)
    return after


def _changed(
    job: Job, *, tenant: Tenant, changes: object, now: datetime, whole: bool, kinds: Kinds
) -> dict[str, Any]:
    columns = definitions.parse(changes, tenant=tenant, now=now, base=job, whole=whole, kinds=kinds)
    changed = {name: value for name, value in columns.items() if not is_same(getattr(job, name), value)}
    if changed and job.status in ENDED_JOB:
        raise Conflict(f"The job is {job.status} and can no longer be edited; create another.")
    return changed


def _planned(job: Job, changed: dict[str, Any], now: datetime) -> _Edit:
    """Plan the edit of one job, with its new version's next instant to materialize. Raises ``ScheduleError``.

    Missed firings are caught up with by the job as it was until now. If the schedule or the misfire policy changes,
    the instants that no beat has seen are put on record first; if both stay, they are left to the beat.
    """
    if changed.keys() <= _INERT:
        return _Edit(job, changed, job.next_fire_at, inert=True, closing=False)
    before, after = definitions.schedule_of(job), definitions.schedule_of(edited(job, changed))
    closing = after != before or not _MISFIRE.isdisjoint(changed)
    if after != before:
        following = schedules.first_instant(after, now=now)
    elif job.next_fire_at is not None and job.next_fire_at <= now and not closing:
        following = job.next_fire_at
    else:
        following = next_fire(after, after=now)
    return _Edit(job, changed, following, inert=False, closing=closing)


def _write(edits: Sequence[_Edit], now: datetime) -> None:
    for job_type in sorted({each.changed["job_type"] for each in edits if "job_type" in each.changed}):
        hold_type(job_type)
    _withdraw_ahead([each for each in edits if not each.inert], now)
    for each in edits:
        job = each.job
        for name, value in each.changed.items():
            setattr(job, name, value)
        job.next_fire_at, job.version, job.updated_at = each.next_fire_at, job.version + 1, now
    _save(edits)
    job_store.note_versions([each.job.id for each in edits])
    lifecycle.restamp([each.job for each in edits])
    wake_beats()


def _withdraw_ahead(edits: Sequence[_Edit], now: datetime) -> None:
    if not edits:
        return
    closing = [each.job for each in edits if each.closing]
    _note_present_versions(closing)
    # A schedule that cannot be computed names no instants; this edit mends it.
    record(statuses.debts_of(closing, now=now))
    if paused := [each.job.id for each in edits if each.job.status == JobStatus.PAUSED]:
        lifecycle.hold(job_ids=paused, held=True)
    ids = [each.job.id for each in edits]
    lifecycle.hand_back(job_ids=ids)
    lifecycle.withdraw_future(job_ids=ids, now=now)


def _note_present_versions(jobs: Sequence[Job]) -> None:
    """Note versions of jobs that were not written by the API; else their past would count as the new schedule's."""
    wanted = {(job.id, job.version) for job in jobs}
    versions = JobVersion.objects.filter(job__in=[job.id for job in jobs])
    known = set(
        versions.filter(version__in={version for _, version in wanted}).values_list("job_id", "version")
    )
    job_store.note_versions(sorted(job_id for job_id, _ in wanted - known))


def _save(edits: Sequence[_Edit]) -> None:
    """Write the jobs; the database says whether a name is free."""
    try:
        with db.atomic():
            job_store.edit({each.job: each.changed.keys() for each in edits})
    except IntegrityError as error:
        diagnosis = getattr(error.__cause__, "diag", None)
        if diagnosis is None or diagnosis.constraint_name != _NAME_TAKEN:
            raise
        # Only an edit of one job changes a name.
        raise name_taken(edits[0].job.name) from error


def name_taken(name: str) -> Conflict:
    """The refusal of a name that a living job of the tenant has."""
    return Conflict(f"Another job is named {name!r}; choose another name.", field="name")

"""Bringing jobs to another status: one or some hundreds of a tenant's, by the same few statements.

The caller holds the tenant's lock, which keeps dispatch away, and the jobs', which keep the materializer away
(``jobs.actions.jobs.lock_jobs``), in a transaction of its own. Each function brings the rows and the objects to the
status and puts it on the jobs' timelines; a job that has the status already stays as it is. Each returns the refusals:
by the job's id, why it could not be done. It leaves these jobs as they are.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from jobs.actions import definition as definitions
from jobs.actions.overdue import Debt, owed, record
from jobs.core.errors import ScheduleError
from jobs.core.schedule import next_fire
from jobs.core.states import ENDED_JOB, JobStatus
from jobs.models import Job
from jobs.store import jobs as job_store
from jobs.store import lifecycle
from jobs.store.catchup import walk as catchup
from jobs.wakeups import wake_beats
from tenants.clock import database_now

Refusals = dict[UUID, str]


def pause(jobs: Sequence[Job], *, reason: str = "", until: datetime | None = None) -> Refusals:
    """Start nothing more of these jobs until they are resumed, by a beat at ``until``; running attempts finish.

    A job that is paused already takes on the ``reason`` and ``until``, if either is given.
    """
    refusals = _refusals(jobs, ENDED_JOB, "be paused")
    pausing = _others(jobs, JobStatus.PAUSED, refusals)
    if pausing:
        lifecycle.hand_back(job_ids=_ids(pausing))
        lifecycle.hold(job_ids=_ids(pausing), held=True)
    if reason or until is not None:
        pausing += [job for job in jobs if job.status == JobStatus.PAUSED]
    if pausing:
        _set(pausing, JobStatus.PAUSED, now=database_now(), reason=reason, until=until)
    return refusals


def resume(jobs: Sequence[Job]) -> Refusals:
    """Let these jobs go on from now, or from the end set for their pause if that is past: firings that fell due before
    are ``skipped: paused``.

    A job that is cancelled or completed refuses. So does a job whose schedule can no longer be computed.
    """
    refusals = _refusals(jobs, ENDED_JOB, "be resumed")
    paused = _others(jobs, JobStatus.ACTIVE, refusals)
    if not paused:
        return refusals
    now, debts, resuming = database_now(), [], []
    pauses = lifecycle.paused_since(job_ids=_ids(paused))
    ends = {job.id: _end_of_pause(job, now) for job in paused}
    for job in paused:
        try:
            debts.append(owed(job=job, now=ends[job.id], paused_at=pauses[job.id]))
            job.next_fire_at = next_fire(definitions.schedule_of(job), after=ends[job.id])
            resuming.append(job)
        except ScheduleError as error:
            refusals[job.id] = str(error)
    record(debts)
    lifecycle.skip_paused({job.id: pauses[job.id] for job in resuming}, now=now, ends=ends)
    lifecycle.hold(job_ids=_ids(resuming), held=False)
    wake_beats()
    _set(resuming, JobStatus.ACTIVE, now=now, sinces=ends)
    return refusals


def _end_of_pause(job: Job, now: datetime) -> datetime:
    """No firing between the end that was set and the resumption is lost, however late a beat comes to it.

    The timeline does not go back behind an edit.
    """
    until = job.paused_until
    return now if until is None else min(now, max(until, job.updated_at))


def cancel(jobs: Sequence[Job]) -> Refusals:
    """End these jobs for good: waiting triggers are cancelled, running ones are asked to stop. No job refuses."""
    ending = _others(jobs, JobStatus.CANCELLED, {})
    if ending:
        catchup.end(job_ids=_ids(ending))
        now = database_now()
        record(debts_of(ending, now=now, ending=True))
        lifecycle.cancel_jobs(job_ids=_ids(ending))
        for job in ending:
            job.next_fire_at = None
        _set(ending, JobStatus.CANCELLED, now=now)
    return {}


def delete(jobs: Sequence[Job]) -> Refusals:
    """Cancel these jobs and take them out of sight; their names are free again. No job refuses."""
    cancel(jobs)
    now = database_now()
    Job.with_hidden.filter(id__in=_ids(jobs)).update(deleted_at=now, updated_at=now)
    for job in jobs:
        job.deleted_at = job.updated_at = now
    return {}


def pauses_of(jobs: Iterable[Job]) -> dict[UUID, datetime]:
    """By id, since when the paused ones of these jobs are paused."""
    paused = [job.id for job in jobs if job.status == JobStatus.PAUSED]
    return lifecycle.paused_since(job_ids=paused) if paused else {}


def debts_of(
    jobs: Sequence[Job],
    *,
    now: datetime,
    ending: bool = False,
    pauses: Mapping[UUID, datetime] | None = None,
) -> list[Debt]:
    """The debts of these jobs. A schedule that cannot be computed has none. ``pauses``: ``pauses_of``, if known."""
    pauses = pauses_of(jobs) if pauses is None else pauses
    debts = []
    for job in jobs:
        with suppress(ScheduleError):
            debts.append(owed(job=job, now=now, paused_at=pauses.get(job.id), ending=ending))
    return debts


def _refusals(jobs: Sequence[Job], statuses: Container[str], participle: str) -> Refusals:
    return {
        job.id: f"The job is {job.status} and cannot {participle}." for job in jobs if job.status in statuses
    }


def _others(jobs: Sequence[Job], status: JobStatus, refusals: Refusals) -> list[Job]:
    return [job for job in jobs if job.status != status and job.id not in refusals]


def _ids(jobs: Sequence[Job]) -> list[UUID]:
    return [job.id for job in jobs]


def _set(
    jobs: Sequence[Job],
    status: JobStatus,
    *,
    now: datetime,
    sinces: Mapping[UUID, datetime] | None = None,
    reason: str = "",
    until: datetime | None = None,
) -> None:
    for job in jobs:
        job.status, job.status_reason, job.paused_until = status, reason, until
        job.updated_at = (sinces or {}).get(job.id, now)
    expire_ats = job_store.set_status(
        {job.id: job.next_fire_at for job in jobs},
        status=status,
        now=now,
        sinces=sinces,
        reason=reason,
        paused_until=until,
    )
    for job in jobs:
        job.expires_at = expire_ats.get(job.id)
    job_store.note_versions(_ids(jobs))

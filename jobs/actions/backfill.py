"""Backfill: run the firings of a past stretch that never ran, by the job's present schedule (DESIGN §9, §10).

A backfill is catch-up without a window or a cap of its own: the leader turns it into triggers in order, at the pace of
catch-up. A firing that has a trigger already, however it ended, is left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobs.actions.fields import Fields
from jobs.actions.jobs import find_job, lock_job
from jobs.actions.schedules import instant_text
from jobs.core.errors import Conflict, InvalidInput, ScheduleError
from jobs.core.schedule import EARLIEST, LATEST, each_fire_time
from jobs.core.states import JobStatus
from jobs.models import CatchUp, Job
from jobs.store import db, history
from jobs.store.catchup import ledger, walk
from jobs.store.catchup.walk import Past
from jobs.store.jobs import schedule_of
from jobs.wakeups import wake_beats
from tenants.models import Tenant

_CHUNK = 10_000
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Extent:
    """The firings of a stretch: ``count`` in all, of which ``existing`` have a trigger already."""

    count: int
    existing: int


def read_request(document: dict[str, Any]) -> dict[str, Any]:
    """``start``, ``end`` and ``dry_run`` of the API's JSON shape. Raises ``InvalidInput``."""
    fields = Fields(document, known=("start", "end", "dry_run"))
    values: dict[str, Any] = {name: fields.instant(name) for name in ("start", "end")}
    for name, value in values.items():
        if value is None and name not in fields.errors:
            fields.complain(name, "Is required: a time like 2030-01-31T02:00:00Z (RFC 3339).")
    dry_run = fields.flag("dry_run")
    fields.finish()
    return {**values, "dry_run": dry_run}


def backfill_job(
    *, tenant: Tenant, job_id: UUID | str, start: datetime, end: datetime, dry_run: bool = False
) -> tuple[Extent, CatchUp | None]:
    """Run every firing from ``start`` to ``end``, both included; with ``dry_run`` only say how many there are.

    Idempotent: the same stretch under the same version of the job is one backfill, however often it is asked for.
    Raises ``InvalidInput`` under ``start`` or ``end`` (not in order, in the future, nothing to run, more firings than
    the tenant's ``max_backfill``), ``Conflict`` when the job is cancelled or its schedule cannot be computed,
    ``NotFound``.
    """
    with db.atomic():
        job = lock_job(tenant, job_id)
        if job.status == JobStatus.CANCELLED:
            raise Conflict("The job is cancelled and cannot be backfilled.")
        _check_stretch(start, end, now=history.database_now())
        extent = _extent(job, start, end, most=tenant.max_backfill)
        if dry_run:
            return extent, None
        if not extent.count:
            raise InvalidInput(
                {"start": "The schedule names no time between start and end; nothing would run."}
            )
        same = backfills(job).filter(job_version=job.version, from_at=start, until_at=end).first()
        if same is not None:
            return extent, same
        past = Past(
            job_id=job.id,
            tenant_id=job.tenant_id,
            job_version=job.version,
            origin=CatchUp.Origin.BACKFILL.value,
            policy="fire_all",
            from_at=start,
            until_at=end,
            expected=extent.count,
        )
        wake_beats()
        return extent, CatchUp.objects.get(id=walk.begin([past])[0])


def backfills_of(*, tenant: Tenant, job_id: UUID | str) -> QuerySet[CatchUp]:
    """The backfills of a job. Raises ``NotFound``."""
    return backfills(find_job(tenant=tenant, job_id=job_id))


def backfills(job: Job) -> QuerySet[CatchUp]:
    return CatchUp.objects.filter(job=job, origin=CatchUp.Origin.BACKFILL)


def representation(backfill: CatchUp) -> dict[str, Any]:
    """A backfill and how far it has come, JSON types only."""
    begun = backfill.cursor >= backfill.from_at
    return {
        "id": str(backfill.id),
        "job_id": str(backfill.job_id),
        "job_version": backfill.job_version,
        "start": instant_text(backfill.from_at),
        "end": instant_text(backfill.until_at),
        "count": backfill.expected,
        "materialized": backfill.fired,
        "cursor": instant_text(backfill.cursor) if begun else None,
        "created_at": instant_text(backfill.created_at),
        "finished_at": instant_text(backfill.finished_at),
    }


def _check_stretch(start: datetime, end: datetime, *, now: datetime) -> None:
    errors = {}
    if not EARLIEST < start < LATEST:
        errors["start"] = "Must lie between 2000-01-01 and 2100-01-01."
    elif start >= end:
        errors["end"] = "Must be later than start."
    if end > now:
        errors["end"] = f"Lies in the future (now is {instant_text(now)}); a backfill runs what is past."
    if errors:
        raise InvalidInput(errors)


def _extent(job: Job, start: datetime, end: datetime, *, most: int) -> Extent:
    """Counts no further than ``most``, in pieces, so that no stretch takes much memory."""
    count = existing = 0
    try:
        for chunk in _chunks(each_fire_time(schedule_of(job), after=start - _TICK, until=end)):
            count += len(chunk)
            if count > most:
                message = f"From start to end are more than {most:,} firings, the quota max_backfill."
                raise InvalidInput({"end": message})
            [found] = ledger.recorded([(job.id, chunk[0], chunk[-1])], limit=2 * _CHUNK)
            existing += len(set(chunk).intersection(found))
    except ScheduleError as error:
        raise Conflict(str(error)) from error
    return Extent(count, existing)


def _chunks(instants: Iterator[datetime]) -> Iterator[list[datetime]]:
    while chunk := list(islice(instants, _CHUNK)):
        yield chunk

"""Backfill: run the firings of a past stretch that never ran, by the job's present schedule (DESIGN §9, §10).

A backfill is catch-up without a window or a cap of its own: the leader turns it into triggers in order, at the pace of
catch-up. A firing that has a trigger already, however it ended, is left alone. Past retention nothing says which
firings had one, so a stretch that begins there is refused unless the caller wants them run again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from jobs.actions.jobs import find_job, lock_job, parse_id
from jobs.conf import engine_settings
from jobs.core.errors import Conflict, InvalidInput, NotFound, ScheduleError
from jobs.core.instants import EARLIEST, LATEST, OUT_OF_BOUNDS, TICK, instant_text
from jobs.core.schedule import each_fire_time
from jobs.core.states import JobStatus
from jobs.models import CatchUp, Change, Job
from jobs.shapes.history import BackfillShape
from jobs.store import db, trail
from jobs.store.catchup import ledger, walk
from jobs.store.catchup.walk import Past
from jobs.store.jobs import callers_trace_kept, schedule_of
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant
from tenants.quotas import MAX_BACKFILL

_CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class Extent:
    """The firings of a stretch: ``count`` in all, of which ``existing`` have a trigger already."""

    count: int
    existing: int


def backfill_job(*, tenant: Tenant, job_id: UUID | str, **wanted: Any) -> tuple[Extent, CatchUp | None]:
    """``backfill`` of a job of the tenant's. Raises ``NotFound``, too."""
    with db.atomic():
        return backfill(lock_job(tenant, job_id), **wanted)


def backfill(
    job: Job, *, start: datetime, end: datetime, dry_run: bool = False, beyond_retention: bool = False
) -> tuple[Extent, CatchUp | None]:
    """Run every firing from ``start`` to ``end``, both included; with ``dry_run`` only say how many there are.

    Idempotent: the same stretch under the same version of the job is one backfill, however often it is asked for.
    A ``start`` before history begins needs ``beyond_retention``, which the audit trail records.
    Call it in the transaction that locked the job. Raises ``InvalidInput`` under ``start`` or ``end`` (not in
    order, in the future, before history begins, nothing to run, more firings than the tenant's ``max_backfill``),
    ``Conflict`` when the job is cancelled or its schedule cannot be computed.
    """
    if job.status == JobStatus.CANCELLED:
        raise Conflict("The job is cancelled and cannot be backfilled.")
    now = database_now()
    _check_stretch(start, end, now=now)
    forgotten = _is_forgotten(job, start, now=now)
    if forgotten and not beyond_retention:
        raise InvalidInput({"start": _forgotten_text(now)})
    extent = _extent(job, start, end, most=job.tenant.max_backfill)
    if dry_run:
        return extent, None
    if not extent.count:
        raise InvalidInput({"start": "The schedule names no time between start and end; nothing would run."})
    same = (
        backfills(job)
        .filter(job_version=job.version, from_at=start, until_at=end)
        .exclude(finished_at__isnull=False, cursor__lt=F("until_at"))  # it was cancelled
        .first()
    )
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
        trace=callers_trace_kept(),
    )
    if forgotten:
        stretch = f"{instant_text(start)}/{instant_text(end)}"
        trail.note_jobs({job.id: {"backfill_beyond_retention": [None, stretch]}})
    wake_beats()
    return extent, CatchUp.objects.get(id=walk.begin([past])[0])


def cancel_backfill(*, tenant: Tenant, job_id: UUID | str, backfill_id: UUID | str) -> CatchUp:
    """``cancel_of`` a job of the tenant's."""
    return cancel_of(find_job(tenant=tenant, job_id=job_id), backfill_id)


def cancel_of(job: Job, backfill_id: UUID | str) -> CatchUp:
    """Make no more triggers of a backfill; those it has made already run. A finished backfill stays as it is.

    The same stretch may be asked for again: firings that have a trigger then are left alone. Opens a transaction.
    Raises ``NotFound``.
    """
    wanted = parse_id(backfill_id, "backfill")
    with db.atomic():
        if walk.end_backfill(wanted, job_id=job.id):
            trail.note(
                tenant_id=job.tenant_id,
                kind=Change.Kind.JOB,
                object_id=job.id,
                name=job.name,
                action=Change.Action.CANCELLED,
                changes={"backfill": [wanted, None]},
            )
        found = backfills(job).filter(id=wanted).first()
    if found is None:
        raise NotFound("There is no such backfill.")
    return found


def backfills_of(*, tenant: Tenant, job_id: UUID | str) -> QuerySet[CatchUp]:
    """The backfills of a job. Raises ``NotFound``."""
    return backfills(find_job(tenant=tenant, job_id=job_id))


def backfills(job: Job) -> QuerySet[CatchUp]:
    return CatchUp.objects.filter(job=job, origin=CatchUp.Origin.BACKFILL)


def representation(backfill: CatchUp) -> dict[str, Any]:
    """A backfill and how far it has come, JSON types only."""
    begun = backfill.cursor >= backfill.from_at
    return BackfillShape.of(backfill, cursor=backfill.cursor if begun else None)


def _check_stretch(start: datetime, end: datetime, *, now: datetime) -> None:
    errors = {}
    if not EARLIEST < start < LATEST:
        errors["start"] = OUT_OF_BOUNDS
    elif start >= end:
        errors["end"] = "Must be later than start."
    if end > now:
        errors["end"] = f"Lies in the future (now is {instant_text(now)}); a backfill runs only past firings."
    if errors:
        raise InvalidInput(errors)


def _retention() -> timedelta:
    return timedelta(days=engine_settings().history_days)


def _is_forgotten(job: Job, start: datetime, *, now: datetime) -> bool:
    """Whether triggers of the job from ``start`` on may have been purged. A younger job has lost none."""
    return max(start, job.created_at) < now - _retention()


def _forgotten_text(now: datetime) -> str:
    return (
        f"Lies before {instant_text(now - _retention())}, where the history of {_retention().days} days "
        "begins: firings before then have no record and would run again. Start later, or set "
        "beyond_retention to true."
    )


def _extent(job: Job, start: datetime, end: datetime, *, most: int) -> Extent:
    """Counts no further than ``most``, in pieces, so that no stretch takes much memory."""
    count = existing = 0
    try:
        for chunk in _chunks(each_fire_time(schedule_of(job), after=start - TICK, until=end)):
            count += len(chunk)
            if count > most:
                raise InvalidInput({"end": f"From start to end there are {MAX_BACKFILL.excess(most)}."})
            [found] = ledger.recorded([(job.id, chunk[0], chunk[-1])], limit=2 * _CHUNK)
            existing += len(set(chunk).intersection(found))
    except ScheduleError as error:
        raise Conflict(str(error)) from error
    return Extent(count, existing)


def _chunks(instants: Iterator[datetime]) -> Iterator[list[datetime]]:
    while chunk := list(islice(instants, _CHUNK)):
        yield chunk

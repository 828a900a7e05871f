"""Put on record what a job owes, before it is changed: no instant may vanish because its schedule or status moves on.

Usually the beat has materialized everything that is due and there is nothing to do. After an outage, and after a pause
longer than the look-ahead, the instants from ``next_fire_at`` on have no record yet. Instants that are still on time,
or that are few, become triggers. All others, even a year of seconds, are handed to the leader as catch-up, so no action
takes long. Call this inside the transaction that holds the job's lock, before the job is changed; ``ScheduleError`` is
raised before anything is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from jobs.core.calendar.timetable import timetable
from jobs.core.instants import TICK
from jobs.core.schedule import jitter_offset
from jobs.models import Job, Origin
from jobs.store import jobs as jobs_store
from jobs.store.catchup import split, walk
from jobs.store.catchup.walk import Past
from jobs.store.jobs import Firing, schedule_of

#: A longer run of skipped firings is one record (DESIGN §9).
MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Debt:
    """The debt of a job: stretches to catch up with, the first of which absorbs its waiting triggers, and firings."""

    absorbing: Sequence[Past] = ()
    stretches: Sequence[Past] = ()
    firings: Sequence[Firing] = ()


def record(debts: Sequence[Debt]) -> None:
    """Put the debts of jobs on record, by three statements at most; the caller moves their ``next_fire_at`` on."""
    stretches = [past for debt in debts for past in debt.stretches]
    walk.begin([*walk.absorb([past for debt in debts for past in debt.absorbing]), *stretches])
    jobs_store.materialize([firing for debt in debts for firing in debt.firings])


def owed(*, job: Job, now: datetime, paused_at: datetime | None = None, ending: bool = False) -> Debt:
    """The instants up to ``now`` that no beat has materialized. Writes nothing.

    An active job's instants are split as the leader does. Missed instants are caught up with by the job's policy as it
    is before the change. Instants within its grace become triggers, which go the way of all that are due. With
    ``ending``, missed instants are skipped for ``misfire``.

    If the job is paused since ``paused_at``, instants that fell due before go the same way. Instants that fell due
    since become triggers, for the caller to skip; if there are more than ``MAX_ROWS``, they are skipped for ``paused``.
    Instants that jitter makes due later become triggers. Raises ``ScheduleError``.
    """
    if job.next_fire_at is None or job.next_fire_at > now:
        return Debt()
    if paused_at is None:
        return _owed_by_active(job, job.next_fire_at, now, ending=ending)
    jitter = jitter_offset(job.id.int, job.jitter)
    # Begin and end of the pause by instants, not by when these fall due.
    begun, over = min(paused_at - jitter, now), now - jitter
    before = _owed_by_active(job, job.next_fire_at, begun - TICK, ending=ending)
    during = _owed_by_paused(job, max(job.next_fire_at, begun), over)
    ahead = _soon(job, max(job.next_fire_at, over + TICK), now)
    return Debt(
        before.absorbing,
        [*before.stretches, *during.stretches, *ahead.stretches],
        [*before.firings, *during.firings, *ahead.firings],
    )


def _owed_by_active(job: Job, since: datetime, until: datetime, *, ending: bool) -> Debt:
    if since > until:
        return Debt()
    on_time_since = until - job.misfire_grace - jitter_offset(job.id.int, job.jitter)
    past = split.past_of(job, on_time_since=on_time_since)
    rest = _soon(job, on_time_since if past else since, until, reason="misfire" if ending else "")
    if past and ending:
        return replace(rest, stretches=[replace(past, reason="misfire"), *rest.stretches])
    return replace(rest, absorbing=[past] if past else [])


def _owed_by_paused(job: Job, since: datetime, until: datetime) -> Debt:
    instants, following = _first_instants(job, since, until)
    if following:
        return Debt(stretches=[replace(_stretch(job, instants[0], until), reason="paused")])
    return Debt(firings=_firings(job, instants))


def _soon(job: Job, since: datetime, until: datetime, reason: str = "") -> Debt:
    """Instants that run as soon as they are due; those beyond the limit of an action run as soon as possible."""
    instants, following = _first_instants(job, since, until)
    stretches = [replace(_stretch(job, following, until), reason=reason)] if following else []
    return Debt(stretches=stretches, firings=_firings(job, instants))


def _first_instants(job: Job, since: datetime, until: datetime) -> tuple[list[datetime], datetime | None]:
    """The first ``MAX_ROWS`` instants from ``since`` to ``until``, and the one after them, if there are more."""
    times = timetable(schedule_of(job), after=since - TICK, until=until)
    instants = [times.nth(index) for index in range(min(len(times), MAX_ROWS))]
    return instants, times.nth(MAX_ROWS) if len(times) > MAX_ROWS else None


def _stretch(job: Job, from_at: datetime, until_at: datetime) -> Past:
    return Past(
        job_id=job.id,
        tenant_id=job.tenant_id,
        job_version=job.version,
        origin="outage",
        policy="fire_all",
        from_at=from_at,
        until_at=until_at,
    )


def materialize(
    *,
    job: Job,
    instants: Sequence[datetime],
    origin: str = Origin.SCHEDULE,
    key: str = "",
    trace: str | None = None,
) -> list[UUID]:
    """Insert a trigger for each instant that has none; returns the new ids. Scheduled ones keep their jitter."""
    return jobs_store.materialize(_firings(job, instants, origin, key, trace))


def _firings(
    job: Job,
    instants: Sequence[datetime],
    origin: str = Origin.SCHEDULE,
    key: str = "",
    trace: str | None = None,
) -> list[Firing]:
    jitter = jitter_offset(job.id.int, job.jitter) if origin == Origin.SCHEDULE else timedelta()
    return [
        Firing(
            job_id=job.id,
            tenant_id=job.tenant_id,
            job_type=job.job_type,
            job_version=job.version,
            priority=job.priority,
            scheduled_for=instant,
            due_at=instant + jitter,
            origin=str(origin),
            idempotency_key=key,
            trace=trace,
        )
        for instant in instants
    ]

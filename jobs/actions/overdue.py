"""Put on record what a job owes, before it is changed: no instant may vanish because its schedule or status moves on.

Usually the beat has materialized everything that is due and there is nothing to do. After an outage, and after a pause
longer than the look-ahead, the instants from ``next_fire_at`` on have no record yet. Call this inside the transaction
that holds the job's lock; ``ScheduleError`` comes out before anything was written.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from jobs.core.schedule import each_fire_time
from jobs.core.states import JobStatus
from jobs.models import Job, Origin, SkippedRange
from jobs.store import jobs as store
from jobs.store.jobs import Firing, schedule_of

#: A longer run of skipped firings is one record (DESIGN §9).
MOST_ROWS = 1000
_TICK = timedelta(microseconds=1)


def record_overdue(*, job: Job, now: datetime) -> None:
    """Record the instants up to ``now`` that no beat has materialized; the caller moves ``next_fire_at`` on.

    Up to ``MOST_ROWS`` become triggers, which go the way of all triggers that are due. Of a longer run, an active job's
    newest ``MOST_ROWS`` do, and what lies further back is one range skipped for ``misfire``; a paused job's are all in
    one range skipped for ``paused``. Raises ``ScheduleError``.
    """
    if job.next_fire_at is None or job.next_fire_at > now:
        return
    recent: deque[datetime] = deque(maxlen=MOST_ROWS)
    skipped, first, last = 0, job.next_fire_at, job.next_fire_at
    for instant in each_fire_time(schedule_of(job), after=job.next_fire_at - _TICK, until=now):
        if not recent:
            first = instant
        if len(recent) == MOST_ROWS:
            skipped, last = skipped + 1, recent[0]
        recent.append(instant)
    if skipped and job.status == JobStatus.PAUSED:
        skipped, last = skipped + len(recent), recent[-1]
        recent.clear()
    if skipped:
        SkippedRange.objects.create(
            job=job,
            tenant_id=job.tenant_id,
            job_version=job.version,
            from_at=first,
            until_at=last,
            count=skipped,
            reason="paused" if job.status == JobStatus.PAUSED else "misfire",
            created_at=now,
        )
    materialize(job=job, instants=recent)


def materialize(
    *, job: Job, instants: Sequence[datetime], origin: str = Origin.SCHEDULE, key: str = ""
) -> list[UUID]:
    """Insert a trigger, due at once, for each instant that has none; returns the new ids."""
    return store.materialize(
        [
            Firing(
                job_id=job.id,
                tenant_id=job.tenant_id,
                job_type=job.job_type,
                job_version=job.version,
                priority=job.priority,
                scheduled_for=instant,
                due_at=instant,
                origin=str(origin),
                idempotency_key=key,
            )
            for instant in instants
        ]
    )

"""The end of a job's past: the firings that it has missed become catch-up, those after them are still on time."""

from datetime import datetime
from typing import Any

from jobs.core.calendar.plans import PlanCache
from jobs.core.instants import TICK
from jobs.core.policies import MisfirePolicy
from jobs.core.schedule import ScheduleType
from jobs.store.catchup.walk import Past
from jobs.store.jobs import schedule_of

#: Up to this many missed firings of a job become triggers that dispatch decides; more become catch-up.
MAX_MISSED = 10
#: The first few firings of cron jobs that missed some, to see whether these are many.
_PROBES = PlanCache(schedule_of=schedule_of)


def past_of(job: Any, *, on_time_since: datetime) -> Past | None:
    """The firings of a job before ``on_time_since`` that must become catch-up; None: they are few, or there are none.

    ``on_time_since`` is as dispatch decides it: a firing is missed once its grace has passed since it was due, jitter
    included. A job is a row of ``take_due`` or a model instance. Raises ``ScheduleError``.
    """
    if job.next_fire_at >= on_time_since:
        return None
    if job.misfire_policy != MisfirePolicy.BACKFILL and not _many_missed(job, on_time_since):
        return None
    return Past(
        job_id=job.id,
        tenant_id=job.tenant_id,
        job_version=job.version,
        origin="outage",
        policy=job.misfire_policy,
        from_at=job.next_fire_at,
        until_at=on_time_since - TICK,
        window=job.catchup_window,
        max_catchup=job.max_catchup,
    )


def _many_missed(job: Any, on_time_since: datetime) -> bool:
    """Whether the firing with ``MAX_MISSED`` others before it is missed, too."""
    if job.schedule_type == ScheduleType.INTERVAL:
        at = job.next_fire_at + MAX_MISSED * job.interval
        return bool(at < on_time_since and (job.ends_at is None or at <= job.ends_at))
    first = _PROBES.plan(job, until=on_time_since, limit=MAX_MISSED + 1).instants
    return len(first) > MAX_MISSED and first[MAX_MISSED] < on_time_since

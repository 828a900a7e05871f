"""Materialize: turn the instants that enter the look-ahead window into triggers (DESIGN §6.2).

One transaction inserts a batch's triggers and moves its jobs on, so a crash repeats the batch and the unique key
``(job, scheduled_for)`` swallows what was there. A schedule that cannot be computed pauses its job with the reason and
never stops the others.
"""

from datetime import datetime, timedelta
from typing import Any

from jobs.core.calendar.plans import PlanCache
from jobs.core.errors import ScheduleError
from jobs.store import db
from jobs.store import jobs as store
from jobs.store.jobs import Firing
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()

#: Firings a pass materializes at most, shared among its jobs; after an outage the rest follow in the next passes.
MAX_FIRINGS = 10_000


def materialize(*, reign: Reign, look_ahead: timedelta, limit: int) -> int:
    """Materialize up to ``limit`` jobs in one transaction. Returns how many; a full batch means more wait."""
    firings: list[Firing] = []
    next_fire_ats: dict[Any, datetime | None] = {}
    with db.atomic():
        rows = store.take_due(reign=reign, look_ahead=look_ahead, limit=limit)
        if not rows:
            return 0
        plans = PlanCache(
            schedule_of=store.schedule_of,
            until=rows[0].window_end,
            limit=max(1, MAX_FIRINGS // len(rows)),
        )
        for row in rows:
            try:
                instants, following = plans.plan(row)
            except ScheduleError as error:
                store.pause_broken(job_id=row.id, reason=str(error))
                log.error("schedule broken", job_id=str(row.id), tenant_id=row.tenant_id, error=str(error))
                continue
            firings += [_firing(row, instant) for instant in instants]
            next_fire_ats[row.id] = following
        created = store.materialize(firings)
        store.advance(next_fire_ats)
    log.debug("materialize", jobs=len(rows), triggers=len(created))
    return len(rows)


def _firing(row: Any, instant: datetime) -> Firing:
    return Firing(
        job_id=row.id,
        tenant_id=row.tenant_id,
        job_type=row.job_type,
        job_version=row.version,
        priority=row.priority,
        scheduled_for=instant,
        due_at=instant + jitter_offset(row.id.int, row.jitter),
    )


def jitter_offset(seed: int, jitter: timedelta) -> timedelta:
    """The stable part of ``jitter`` that belongs to a job: the same job keeps its offset (DESIGN §8, herd)."""
    span = jitter // timedelta(milliseconds=1)
    # The low half of a UUIDv7 is random; the high half is time and would give neighbours the same offset.
    return timedelta(milliseconds=(seed & 0xFFFFFFFFFFFFFFFF) % span) if span else timedelta()

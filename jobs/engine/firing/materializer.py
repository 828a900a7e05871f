"""Materialize: turn the instants that enter the look-ahead window into triggers (DESIGN §6.2).

One transaction inserts a batch's triggers and moves its jobs on, so a crash repeats the batch and the unique key
``(job, scheduled_for)`` swallows what was there. A schedule that cannot be computed pauses its job with the reason and
never stops the others.

It stays on time whatever went before: a job that has missed many firings is split. The missed ones are noted as
catch-up (``jobs.engine.firing.catchup``), and the job goes on with the first that can still be on time, in the same
pass.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from jobs.core.calendar.plans import PlanCache
from jobs.core.errors import ScheduleError
from jobs.core.policies import MisfirePolicy
from jobs.engine.firing.pace import WINDOW_SECONDS, Pace
from jobs.store import db
from jobs.store import jobs as store
from jobs.store.catchup import walk
from jobs.store.catchup.walk import Past
from jobs.store.jobs import Firing
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()

#: Firings a pass materializes at most, shared among its jobs; the rest follow in the next passes.
MAX_FIRINGS = 10_000
#: Up to this many missed firings of a job become triggers that dispatch judges; more become catch-up.
MOST_MISSED = 10
_TICK = timedelta(microseconds=1)
PLANS = PlanCache(schedule_of=store.schedule_of)
#: The first few firings of jobs that missed some: whether they are many.
_PROBES = PlanCache(schedule_of=store.schedule_of)


def materialize(*, reign: Reign, look_ahead: timedelta, limit: int, pace: Pace | None = None) -> int:
    """Materialize up to ``limit`` jobs in one transaction. Returns how many; a full batch means more wait.

    ``pace`` is told what each tenant fires on time.
    """
    firings: list[Firing] = []
    pasts: list[Past] = []
    next_fire_ats: dict[Any, datetime | None] = {}
    with db.atomic():
        rows = store.take_due(reign=reign, look_ahead=look_ahead, limit=limit)
        if not rows:
            return 0
        until = rows[0].window_end
        most = max(1, MAX_FIRINGS // len(rows))
        for row in rows:
            try:
                past = _past(row)
                since = past.until_at + _TICK if past else None
                instants, following = PLANS.plan(row, until=until, limit=most, since=since)
            except ScheduleError as error:
                store.pause_broken(job_id=row.id, reason=str(error))
                log.error("schedule broken", job_id=str(row.id), tenant_id=row.tenant_id, error=str(error))
                continue
            if past:
                pasts.append(past)
            firings += [_firing(row, instant) for instant in instants]
            next_fire_ats[row.id] = following
        walk.begin(walk.absorb(pasts))
        created = store.materialize(firings)
        store.advance(next_fire_ats)
    if pace is not None:
        _note(firings, pace, since=until - timedelta(seconds=WINDOW_SECONDS))
    if pasts:
        log.info("catch-up begins", jobs=len(pasts))
    log.debug("materialize", jobs=len(rows), triggers=len(created))
    return len(rows)


def _past(row: Any) -> Past | None:
    """The missed firings of a job that are to become catch-up; None when they are few, or none."""
    # As dispatch judges it: a firing is missed once its grace has passed since it was due, jitter included.
    on_time_since = row.on_time_since - jitter_offset(row.id.int, row.jitter)
    if row.next_fire_at >= on_time_since:
        return None
    if row.misfire_policy != MisfirePolicy.BACKFILL:
        first = _PROBES.plan(row, until=row.window_end, limit=MOST_MISSED + 1).instants
        if len(first) <= MOST_MISSED or first[MOST_MISSED] >= on_time_since:
            return None
    return Past(
        job_id=row.id,
        tenant_id=row.tenant_id,
        job_version=row.version,
        origin="outage",
        policy=row.misfire_policy,
        from_at=row.next_fire_at,
        until_at=on_time_since - _TICK,
    )


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


def _note(firings: list[Firing], pace: Pace, *, since: datetime) -> None:
    """Tell the pace what is new; of a first pass over a longer window the last minute only, as it counts a minute's."""
    counts = Counter(firing.tenant_id for firing in firings if firing.scheduled_for > since)
    for tenant_id, count in counts.items():
        pace.note(tenant_id, count)


def jitter_offset(seed: int, jitter: timedelta) -> timedelta:
    """The stable part of ``jitter`` that belongs to a job: the same job keeps its offset (DESIGN §8, herd)."""
    span = jitter // timedelta(milliseconds=1)
    # The low half of a UUIDv7 is random; the high half is time and would give neighbours the same offset.
    return timedelta(milliseconds=(seed & 0xFFFFFFFFFFFFFFFF) % span) if span else timedelta()

"""Materialize: turn the instants that enter the look-ahead window into triggers (DESIGN §6.2).

One transaction inserts a batch's triggers and advances its jobs. So a crash repeats the batch, and the unique key
``(job, scheduled_for)`` ignores triggers that are there already. A schedule that cannot be computed pauses its job with
the reason and never stops the other jobs.

Materialize stays on time however many firings were missed: a job that has missed many firings is split. The missed
firings are noted as catch-up (``jobs.engine.firing.catchup``). In the same pass the job goes on with the first firing
that can still be on time. Among many long overdue jobs, those that fire next go first (``CatchUpOrder``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from jobs.core.backlog import News
from jobs.core.calendar.plans import PlanCache
from jobs.core.errors import ScheduleError
from jobs.core.instants import TICK
from jobs.core.schedule import jitter_offset
from jobs.crash_points import crash_point
from jobs.engine.firing.order import CatchUpOrder
from jobs.engine.firing.pace import WINDOW_SECONDS, Pace
from jobs.store import db
from jobs.store import jobs as jobs_store
from jobs.store.catchup import split, walk
from jobs.store.catchup.walk import Past
from jobs.store.jobs import Firing
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()

#: A pass materializes at most this many firings, shared among its jobs; the rest follow in the next passes.
MAX_FIRINGS = 10_000
PLANS = PlanCache(schedule_of=jobs_store.schedule_of)


def materialize(
    *,
    leadership: Leadership,
    look_ahead: timedelta,
    limit: int,
    pace: Pace | None = None,
    order: CatchUpOrder | None = None,
    tell: Callable[[Sequence[News], datetime], None] | None = None,
    zoned: bool = True,
) -> int:
    """Materialize up to ``limit`` jobs in one transaction. Returns how many, or ``limit`` while more wait.

    ``pace`` learns how much each tenant fires on time. ``order`` keeps the order of overdue jobs from pass to pass.
    ``tell`` tells this process's dispatcher of the committed triggers, and the database's time. Where that dispatcher
    is the only one, nothing is announced.
    Without ``zoned``, jobs whose instants depend on a time zone wait (``jobs.engine.firing.zones``).
    """
    firings: list[Firing] = []
    pasts: list[Past] = []
    next_fire_ats: dict[Any, datetime | None] = {}
    order = CatchUpOrder() if order is None else order
    with db.atomic():
        rows = _take(leadership, look_ahead, limit, order, zoned=zoned)
        if not rows:
            return 0
        until = rows[0].window_end
        most, cut_short = max(1, MAX_FIRINGS // len(rows)), False
        for row in rows:
            try:
                # The rule of dispatch: a firing is missed once its grace has passed since it was due, jitter included.
                past = split.past_of(
                    row, on_time_since=row.on_time_since - jitter_offset(row.id.int, row.jitter)
                )
                since = past.until_at + TICK if past else None
                instants, following = PLANS.plan(row, until=until, limit=most, since=since)
            except ScheduleError as error:
                jobs_store.pause_broken(job_id=row.id, reason=str(error))
                log.error("schedule broken", job_id=str(row.id), tenant_id=row.tenant_id, error=str(error))
                continue
            if past:
                pasts.append(past)
            cut_short = cut_short or len(instants) == most
            firings += [_firing(row, instant) for instant in instants]
            next_fire_ats[row.id] = following
        walk.begin(walk.absorb(pasts))
        told = tell is not None and leadership.alone
        created = jobs_store.materialize(firings, announce=not told)
        jobs_store.advance(next_fire_ats)
        if created:
            crash_point("materialize.before_commit")
    if created:
        crash_point("materialize.after_commit")
    if tell is not None:
        tell(_news(firings), until - look_ahead)
    if pace is not None:
        _note(firings, pace, since=until - timedelta(seconds=WINDOW_SECONDS))
    if pasts:
        log.info("catch-up begins", jobs=len(pasts))
    log.debug("materialize", jobs=len(rows), triggers=len(created))
    return limit if order or cut_short else len(rows)


def _take(
    leadership: Leadership, look_ahead: timedelta, limit: int, order: CatchUpOrder, *, zoned: bool
) -> Sequence[Any]:
    """The next jobs, locked: by the catch-up order, else the longest due. Many overdue jobs are put in order first."""
    take_due = partial(
        jobs_store.take_due, leadership=leadership, look_ahead=look_ahead, limit=limit, zoned=zoned
    )
    while order:
        # Another beat may have taken all of them.
        if rows := take_due(ids=order.take(limit)):
            return rows
    rows = take_due()
    if len(rows) < limit or rows[0].next_fire_at >= rows[0].on_time_since:
        return rows
    order.draw_up(look_ahead=look_ahead)
    return take_due(ids=order.take(limit)) or rows


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


def _news(firings: Iterable[Firing]) -> list[News]:
    """The lanes of the firings, each with its earliest due time."""
    floors: dict[tuple[int, str, int], datetime] = {}
    for firing in firings:
        lane = (firing.tenant_id, firing.job_type, firing.priority)
        floors[lane] = min(firing.due_at, floors.get(lane, firing.due_at))
    return [News(*lane, floor) for lane, floor in floors.items()]


def _note(firings: list[Firing], pace: Pace, *, since: datetime) -> None:
    """Tell the pace of new firings. A first pass over a longer window tells only the last minute, which pace counts."""
    counts = Counter(firing.tenant_id for firing in firings if firing.scheduled_for > since)
    for tenant_id, count in counts.items():
        pace.note(tenant_id, count)

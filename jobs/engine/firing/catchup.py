"""Catch up: decide missed firings, and make triggers of the firings that run, at their pace (DESIGN §9).

Two walks go over the catch-ups, each in a few short transactions a turn. *Decide* applies the job's misfire policy to
the missed firings. Firings that do not run are recorded at once; firings that run wait in the catch-up's tail. *Decide*
counts firings and lists only those it must, so nine days cost as much as a minute. *Run* turns tails, and every instant
of ``fire_all`` and of backfills, into triggers, as fast as ``Pace`` lets it.

Each catch-up is decided by its job as it was when the catch-up began, even if the job was edited since; its triggers
are of the job's present version. A transaction writes the records and the catch-up's cursor together, so a crash loses
and doubles nothing. Two beats take different rows. A turn ends when its time is up, so on-time work never waits long
behind past firings.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.calendar.timetable import Listed, timetable
from jobs.core.errors import ScheduleError
from jobs.core.instants import TICK
from jobs.core.policies import MisfirePolicy, Priority
from jobs.core.schedule import each_fire_time
from jobs.engine.firing.decisions import Decided, between, decide, runs
from jobs.engine.firing.pace import Pace
from jobs.store import db
from jobs.store import jobs as job_store
from jobs.store.catchup import ledger, walk
from jobs.store.catchup.ledger import MAX_ROWS, Run, Skip
from jobs.store.catchup.walk import Progress, schedule_of
from jobs.store.jobs import Firing
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()

#: Catch-ups per transaction.
BATCH = 100
#: Firings of one job that may wait, where several may run at once. So all jobs of a tenant get their turn.
VISIT = 10
#: About how many skipped firings a transaction writes as triggers, so that it stays short after an outage of hours.
MAX_WRITTEN = 1_000
#: Triggers of one catch-up looked up at once, to leave their firings out. The firings behind them wait a turn.
MAX_RECORDED = 1_000
#: Triggers looked up at once between the instants of a tail: more than the longest tail has.
MAX_IN_TAIL = 20_000
_START = UUID(int=0)


class Step(NamedTuple):
    """The result of deciding a catch-up; ``partly``: it was too much for one step."""

    skips: list[Skip]
    runs: list[Run]
    progress: Progress
    partly: bool


class CatchUps:
    """Remembers how far both walks have come. ``monotonic`` gives seconds, for the time a turn may take."""

    def __init__(self, *, pace: Pace, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pace = pace
        self._monotonic = monotonic
        self._decided_to = _START
        self._ran_to: dict[int, UUID] = {}
        self._last_tenant = 0

    def step(self, *, leadership: Leadership, budget: timedelta) -> bool:
        """Work for about ``budget``. Returns whether there is more that could be done at once."""
        deadline = self._monotonic() + budget.total_seconds()
        # Run first: running is paced, so it leaves most of the time to deciding, which is not paced.
        self._run(leadership, deadline)
        more = True
        while more and self._monotonic() < deadline:
            more = self._decide(leadership, deadline)
        return more

    def _decide(self, leadership: Leadership, deadline: float) -> bool:
        """One transaction of deciding; False once everything is decided."""
        with db.atomic():
            rows = walk.take_undecided(leadership=leadership, after=self._decided_to, limit=BATCH)
            steps, broken = self._steps(rows, deadline)
            ledger.skip([skip for step in steps for skip in step.skips])
            ledger.skip_ranges([run for step in steps for run in step.runs])
            walk.advance([step.progress for step in steps])
        _set_aside(broken)
        visited = len(steps) + len(broken)
        came_round = visited == len(rows) < BATCH
        self._decided_to = _START if came_round else rows[visited - 1].id
        return not came_round or any(step.partly for step in steps)

    def _steps(
        self, rows: Sequence[Any], deadline: float
    ) -> tuple[list[Step], list[tuple[Any, ScheduleError]]]:
        """The step for each catch-up, and the catch-ups whose schedule is broken. Stops when the time is up."""
        steps: list[Step] = []
        broken: list[tuple[Any, ScheduleError]] = []
        written = 0
        for row, before, behind in zip(rows, _recorded_in_tails(rows), _recorded_ahead(rows), strict=True):
            if steps and (written >= MAX_WRITTEN or self._monotonic() >= deadline):
                break
            try:
                steps.append(_step_of(row, before, behind))
                written += len(steps[-1].skips)
            except ScheduleError as error:
                broken.append((row, error))
        return steps, broken

    def _run(self, leadership: Leadership, deadline: float) -> None:
        """Let each tenant's past firings run as far as its pace allows; tenants take turns at being first."""
        waiting = walk.waiting()
        self._ran_to = {tenant_id: after for tenant_id, after in self._ran_to.items() if tenant_id in waiting}
        for tenant_id in sorted(waiting, key=lambda tenant_id: (tenant_id <= self._last_tenant, tenant_id)):
            allowance = self._pace.allowance(tenant_id, waiting=waiting[tenant_id])
            if allowance:
                self._run_tenant(leadership, tenant_id, min(allowance, MAX_ROWS))
            self._last_tenant = tenant_id
            if self._monotonic() >= deadline:
                break

    def _run_tenant(self, leadership: Leadership, tenant_id: int, allowance: int) -> None:
        after = self._ran_to.get(tenant_id, _START)
        with db.atomic():
            take = partial(
                walk.take_decided, leadership=leadership, tenant_id=tenant_id, backlog=VISIT, limit=allowance
            )
            rows = take(after=after) or (take(after=_START) if after != _START else [])
            steps, firings, broken = _run_rows(rows, allowance)
            created = len(job_store.materialize(firings))
            walk.advance(steps)
        _set_aside(broken)
        visited = len(steps) + len(broken)
        came_round = visited == len(rows) < allowance
        self._ran_to[tenant_id] = _START if came_round else rows[visited - 1].id
        self._pace.spend(tenant_id, created)
        if created:
            log.debug("catch-up", tenant_id=tenant_id, triggers=created)


def _recorded_ahead(rows: Sequence[Any]) -> list[list[datetime]]:
    """For each catch-up, the first instants after its cursor that have a trigger already."""
    return ledger.recorded(
        [(row.job_id, row.cursor + TICK, row.until_at) for row in rows], limit=MAX_RECORDED
    )


def _recorded_in_tails(rows: Sequence[Any]) -> list[list[datetime]]:
    """The recorded instants that lie between the instants of each tail."""
    tails = [row for row in rows if row.tail]
    found = ledger.recorded([(row.job_id, row.tail[0], row.cursor) for row in tails], limit=MAX_IN_TAIL)
    of_row = {row.id: recorded for row, recorded in zip(tails, found, strict=True)}
    return [of_row.get(row.id, []) for row in rows]


def _step_of(row: Any, in_tail: Sequence[datetime], ahead: Sequence[datetime]) -> Step:
    """The records to write for a catch-up. An instant that has its trigger already is not decided again."""
    partly = len(ahead) == MAX_RECORDED
    until = ahead[-1] if partly else row.until_at
    times = timetable(schedule_of(row), after=row.cursor, until=until)
    missed = [*between(Listed(row.tail), in_tail), *between(times, ahead)]
    if row.reason:
        found = Decided({row.reason: missed}, [])
    else:
        found = decide(missed, policy=row.policy, max_catchup=row.max_catchup, window_start=row.window_start)
    done = not partly and not found.tail
    progress = Progress(row.id, max(until, row.cursor), found.tail, fired=0, skipped=found.skipped, done=done)
    # A step that sees only a part does not know how many firings were missed in all.
    if row.cursor < row.from_at and not partly and found.skipped <= MAX_ROWS:
        return Step(_skips(row, found), [], progress, partly)
    return Step([], _runs(row, found, [*in_tail, *ahead]), progress, partly)


def _skips(row: Any, found: Decided) -> list[Skip]:
    return [
        Skip(row, at, reason)
        for reason, stretches in found.ended.items()
        for stretch in stretches
        for at in stretch.instants()
    ]


def _runs(row: Any, found: Decided, recorded: Sequence[datetime]) -> list[Run]:
    return [
        Run(
            job_id=row.job_id,
            tenant_id=row.tenant_id,
            job_type=row.job_type,
            job_version=row.job_version,
            from_at=first,
            until_at=final,
            count=count,
            reason=reason,
            floor=row.from_at,
        )
        for reason, stretches in found.ended.items()
        for first, final, count in runs(stretches, recorded)
    ]


def _run_rows(
    rows: Sequence[Any], allowance: int
) -> tuple[list[Progress], list[Firing], list[tuple[Any, ScheduleError]]]:
    """The next firings of each catch-up to run, until the allowance is used up, and the catch-ups that are broken."""
    steps: list[Progress] = []
    firings: list[Firing] = []
    broken = []
    for row, recorded in zip(rows, _recorded_ahead(rows), strict=True):
        most = min(row.room, allowance - len(firings))
        if not most:
            break
        try:
            every = row.policy == MisfirePolicy.FIRE_ALL
            progress, instants = _next_of_all(row, recorded, most) if every else _next_of_tail(row, most)
        except ScheduleError as error:
            broken.append((row, error))
            continue
        steps.append(progress)
        firings += [_firing(row, instant, place) for place, instant in enumerate(instants)]
    return steps, firings, broken


def _next_of_tail(row: Any, most: int) -> tuple[Progress, Sequence[datetime]]:
    now, rest = row.tail[:most], row.tail[most:]
    return Progress(row.id, row.cursor, rest, fired=len(now), skipped=0, done=not rest), now


def _next_of_all(row: Any, recorded: Sequence[datetime], most: int) -> tuple[Progress, Sequence[datetime]]:
    """The next instants without a trigger, as far as existing triggers were looked up."""
    full = len(recorded) == MAX_RECORDED
    until = recorded[-1] if full else row.until_at
    known, found, cursor = set(recorded), list[datetime](), row.cursor
    for instant in each_fire_time(schedule_of(row), after=row.cursor, until=until):
        if instant not in known:
            if len(found) == most:
                break
            found.append(instant)
        cursor = instant
    else:
        cursor = until
    done = cursor >= row.until_at
    return Progress(row.id, cursor, (), fired=len(found), skipped=0, done=done), found


def _firing(row: Any, instant: datetime, place: int) -> Firing:
    return Firing(
        job_id=row.job_id,
        tenant_id=row.tenant_id,
        job_type=row.job_type,
        job_version=row.job_version,
        # Not the job's own priority: on-time work of the tenant goes first.
        priority=int(Priority.LOW),
        scheduled_for=instant,
        # Due now, not at its own instant. So it is not missed again, and does not go ahead of triggers that have waited
        # longer. The catch-up's firings stay in order.
        due_at=row.taken_at + place * TICK,
        origin="backfill" if row.origin == "backfill" else "catchup",
        trace=row.trace,
    )


def _set_aside(broken: Sequence[tuple[Any, ScheduleError]]) -> None:
    """A schedule that cannot be computed pauses its job, and its past firings are held until it is mended. If the job
    has another version by now, or no firing may run any more, nothing can mend the schedule: its past firings are given
    up.

    Call it after the transaction, because an action may hold the job and wait for its catch-up.
    """
    walk.give_up([row.id for row, _ in broken if _is_beyond_repair(row)])
    for row, error in broken:
        if not _is_beyond_repair(row):
            job_store.pause_broken(job_id=row.job_id, reason=str(error))
        log.error("schedule broken", job_id=str(row.job_id), tenant_id=row.tenant_id, error=str(error))


def _is_beyond_repair(row: Any) -> bool:
    return row.past_schedule is not None or bool(getattr(row, "reason", ""))

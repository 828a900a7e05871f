"""Catch up: decide what becomes of missed firings, and let those that are to run do so at their pace (DESIGN §9).

Two walks over the catch-up at hand, each a few short transactions a turn. *Decide* goes through the missed instants in
chunks, by the job's misfire policy: what does not run is put on record at once, what does waits in the catch-up's tail.
*Run* turns tails, and every instant of ``fire_all`` and of backfills, into triggers, as fast as ``Pace`` lets it.

A transaction writes the records and the catch-up's cursor together, so a crash loses and doubles nothing; two beats
take different rows. A turn ends when its time is up, so that on-time work never waits long behind the past.
"""

import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.calendar.plans import PlanCache
from jobs.core.errors import ScheduleError
from jobs.core.policies import MisfirePolicy, Priority
from jobs.core.schedule import each_fire_time
from jobs.engine.firing.pace import Pace
from jobs.engine.firing.verdicts import Decided, decide, most_to_run, reason_within_window
from jobs.store import db
from jobs.store import jobs as job_store
from jobs.store.catchup import ledger, walk
from jobs.store.catchup.ledger import MOST_ROWS, Run, Skip
from jobs.store.catchup.walk import Progress
from jobs.store.jobs import Firing
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()

CHUNK = 2_000
#: Catch-ups a transaction takes.
BATCH = 100
#: Firings one catch-up may run in its turn, and of one job that may wait: so all of a tenant's jobs get theirs.
VISIT = 10
#: Skipped firings a transaction writes as triggers, about: so that it stays short after an outage of hours.
MOST_WRITTEN = 1_000
#: Triggers of one job looked up at once, to leave their firings out: more than a chunk and the longest tail have.
MOST_RECORDED = 20_000
#: As many while running, where the rest can wait for the next turn.
MOST_PASSED = 1_000
#: The walk goes by age, so neighbours were missed together and share plans of up to a chunk each; few are kept.
_PLANS = PlanCache(schedule_of=job_store.schedule_of, capacity=100)
_START = UUID(int=0)
_TICK = timedelta(microseconds=1)


class Chunk(NamedTuple):
    """The next ``instants`` of a catch-up, up to ``until``; ``last``: there are no more after them."""

    row: Any
    instants: Sequence[datetime]
    until: datetime
    last: bool

    @property
    def whole(self) -> bool:
        """Whether it is all there is of the catch-up: who sees a part only knows that many firings were missed."""
        return bool(self.last and self.row.cursor < self.row.from_at)


class CatchUps:
    """Where both walks have come to. ``monotonic`` gives seconds, for the time a turn may take."""

    def __init__(self, *, pace: Pace, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pace = pace
        self._monotonic = monotonic
        self._decided_to = _START
        self._ran_to: dict[int, UUID] = {}
        self._last_tenant = 0

    def step(self, *, reign: Reign, budget: timedelta) -> bool:
        """Work for about ``budget``. Returns whether there is more that could be done at once."""
        deadline = self._monotonic() + budget.total_seconds()
        # Running first: it is paced, so it leaves most of the time to deciding, which is not.
        self._run(reign, deadline)
        more = True
        while more and self._monotonic() < deadline:
            more = self._decide(reign, deadline)
        return more

    def _decide(self, reign: Reign, deadline: float) -> bool:
        """One transaction of deciding; False once everything is decided."""
        with db.atomic():
            rows = walk.take_undecided(reign=reign, after=self._decided_to, limit=BATCH)
            chunks, broken = self._chunks(rows, deadline)
            recorded = ledger.recorded(
                [(row.job_id, min([*row.tail[:1], row.next_fire_at]), until) for row, _, until, _ in chunks],
                limit=MOST_RECORDED,
            )
            steps = [_judge(chunk, recorded.get(chunk.row.job_id, ())) for chunk in chunks]
            ledger.skip([skip for skips, _, _ in steps for skip in skips])
            ledger.skip_ranges([run for _, runs, _ in steps for run in runs])
            walk.advance([progress for _, _, progress in steps])
        _pause(broken)
        visited = len(chunks) + len(broken)
        came_round = visited == len(rows) < BATCH
        self._decided_to = _START if came_round else rows[visited - 1].id
        return not came_round or not all(chunk.last for chunk in chunks)

    def _chunks(self, rows: Sequence[Any], deadline: float) -> tuple[list[Chunk], list[Any]]:
        """The next chunk of each catch-up, and those whose schedule is broken.

        Leaves off when the time is up: a chunk of a cron schedule may take tens of milliseconds.
        """
        chunks: list[Chunk] = []
        broken = []
        written = 0
        for row in rows:
            if chunks and (written >= MOST_WRITTEN or self._monotonic() >= deadline):
                break
            try:
                instants, following = _PLANS.plan(row, until=row.until_at, limit=CHUNK)
            except ScheduleError as error:
                broken.append((row, error))
                continue
            last = following is None or following > row.until_at
            chunks.append(Chunk(row, instants, row.until_at if last else instants[-1], last))
            written += len(instants) if chunks[-1].whole else 0
        return chunks, broken

    def _run(self, reign: Reign, deadline: float) -> None:
        """Let each tenant's past firings run as far as its pace allows; tenants take turns at being first."""
        waiting = walk.waiting()
        self._ran_to = {tenant_id: after for tenant_id, after in self._ran_to.items() if tenant_id in waiting}
        for tenant_id in sorted(waiting, key=lambda tenant_id: (tenant_id <= self._last_tenant, tenant_id)):
            # Our part of those that wait: other beats made theirs, at their own pace.
            ours = math.ceil(waiting[tenant_id] * reign.part)
            allowance = self._pace.allowance(tenant_id, waiting=ours)
            if allowance:
                self._run_tenant(reign, tenant_id, min(allowance, MOST_ROWS))
            self._last_tenant = tenant_id
            if self._monotonic() >= deadline:
                break

    def _run_tenant(self, reign: Reign, tenant_id: int, allowance: int) -> None:
        after = self._ran_to.get(tenant_id, _START)
        with db.atomic():
            take = partial(
                walk.take_decided, reign=reign, tenant_id=tenant_id, backlog=VISIT, limit=allowance
            )
            rows = take(after=after) or take(after=_START)
            steps, firings, broken = _run_rows(rows, allowance)
            created = len(job_store.materialize(firings))
            walk.advance(steps)
        _pause(broken)
        visited = len(steps) + len(broken)
        came_round = visited == len(rows) < allowance
        self._ran_to[tenant_id] = _START if came_round else rows[visited - 1].id
        self._pace.spend(tenant_id, created)
        if created:
            log.debug("catch-up", tenant_id=tenant_id, triggers=created)


def _judge(chunk: Chunk, recorded: Sequence[datetime]) -> tuple[list[Skip], list[Run], Progress]:
    """What to write of one chunk. An instant that has its trigger already is not decided again."""
    row, instants, until, last = chunk
    if recorded:
        known = set(recorded)
        instants = [at for at in instants if at not in known]
    keep = most_to_run(row.policy, max_catchup=row.max_catchup)
    found = decide(row.tail, instants, keep=keep, window_start=row.window_start, last=last)
    skipped = len(found.misfired) + len(found.passed_over)
    few = chunk.whole and skipped <= MOST_ROWS
    progress = Progress(row.id, until, found.tail, fired=0, skipped=skipped, done=last and not found.tail)
    return (_rows(row, found), [], progress) if few else ([], _runs(row, found, recorded), progress)


def _run_rows(
    rows: Sequence[Any], allowance: int
) -> tuple[list[Progress], list[Firing], list[tuple[Any, ScheduleError]]]:
    """Of each catch-up the next firings to run, until the allowance is used up; and those that are broken."""
    every = [row for row in rows if row.policy == MisfirePolicy.FIRE_ALL]
    recorded = ledger.recorded(
        [(row.job_id, row.cursor + _TICK, row.until_at) for row in every], limit=MOST_PASSED
    )
    steps: list[Progress] = []
    firings: list[Firing] = []
    broken = []
    for row in rows:
        most = min(VISIT, allowance - len(firings))
        if not most:
            break
        try:
            progress, instants = (
                _next_of_all(row, recorded.get(row.job_id, ()), most)
                if row.policy == MisfirePolicy.FIRE_ALL
                else _next_of_tail(row, most)
            )
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
    """The next instants without a trigger, as far as it was looked up which have one."""
    full = len(recorded) == MOST_PASSED
    until = recorded[-1] if full else row.until_at
    known, found, cursor = set(recorded), list[datetime](), row.cursor
    for instant in each_fire_time(job_store.schedule_of(row), after=row.cursor, until=until):
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
        # Whatever the job's own: on-time work of the tenant goes first.
        priority=int(Priority.LOW),
        scheduled_for=instant,
        # Due now, not then: neither missed again nor ahead of what has waited longer; in order among themselves.
        due_at=row.taken_at + place * _TICK,
        origin="backfill" if row.origin == "backfill" else "catchup",
    )


def _rows(row: Any, found: Decided) -> list[Skip]:
    within = reason_within_window(row.policy)
    return [Skip(row, at, "misfire") for at in found.misfired] + [
        Skip(row, at, within) for at in found.passed_over
    ]


def _runs(row: Any, found: Decided, recorded: Sequence[datetime]) -> list[Run]:
    within = reason_within_window(row.policy)
    parts = (
        [("misfire", [*found.misfired, *found.passed_over])]
        if within == "misfire"
        else [("misfire", found.misfired), (within, found.passed_over)]
    )
    return [
        Run(row.job_id, row.tenant_id, row.job_version, first, final, count, reason, floor=row.from_at)
        for reason, instants in parts
        for first, final, count in ledger.unbroken(instants, recorded)
    ]


def _pause(broken: Sequence[tuple[Any, ScheduleError]]) -> None:
    """A schedule that cannot be computed pauses its job, and its past is held until it is mended.

    After the transaction, because an action may hold the job and wait for its catch-up.
    """
    for row, error in broken:
        job_store.pause_broken(job_id=row.job_id, reason=str(error))
        log.error("schedule broken", job_id=str(row.job_id), tenant_id=row.tenant_id, error=str(error))

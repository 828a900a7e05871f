"""How the installation is doing: its figures, kept for a moment, for the judgement and for the code that shows them.

All of it comes from the database, except whether Redis and the broker answer. A thread asks these two: a server that is
frozen keeps no page waiting, and counts as away when it has not answered in time.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock, Thread

from jobs import limits
from jobs.broker import broker_answers
from jobs.conf import EngineSettings, engine_settings
from jobs.core.judgement import ClockFigures, Figures, LeaderFigures, OpenBreaker, Stopped, WorkerFigures
from jobs.core.pull import is_pull
from jobs.explain.work import Work, work_of
from jobs.store.dispatch import targets
from jobs.store.insight import clocks, overview
from jobs.store.insight.overview import Lanes, Seen, Turns, Upkeep
from jobs.store.insight.workers import shared_names
from tenants.clock import database_now
from tenants.models import ApiKey, Tenant

#: The time between two looks at the database, and between two looks at figures that change slowly.
KEPT_SECONDS, UPKEEP_SECONDS = 4.0, 30.0
#: A server that has not answered for so long is away; it is asked again so much after its last answer.
ANSWER_SECONDS, ASK_AGAIN_SECONDS = 1.0, 4.0
#: How long the figures tell that a beat let firings pass unrated, after that was seen.
BYPASS_SECONDS = 600.0
MAX_KEPT = 50


def limits_exist() -> bool:
    """Whether a tenant, a key or a host has a limit of its own. The limit of all keys guards against accidents."""
    return bool(
        any(rule.rate_per_second for rule in targets.rules())
        or Tenant.objects.filter(rate_per_second__isnull=False).exists()
        or ApiKey.objects.filter(rate_per_second__isnull=False).exists()
    )


class Answering:
    """Whether a server answers, asked in a thread. Callers wait ``ANSWER_SECONDS`` at most for its first answer."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._asked_at: float | None = None
        self._answered_at = float("-inf")
        self._answer: bool | None = None

    def __call__(self) -> bool:
        with self._lock:
            now = time.monotonic()
            asking = None
            if self._asked_at is None and now >= self._answered_at + ASK_AGAIN_SECONDS:
                self._asked_at = now
                asking = Thread(target=self._run, name="carillon-answering", daemon=True)
                asking.start()
            waited = self._asked_at is not None and now - self._asked_at > ANSWER_SECONDS
        if asking is not None and self._answer is None:
            asking.join(ANSWER_SECONDS)
        return bool(self._answer) and not waited

    def _run(self) -> None:
        try:
            answer = self._ask()
        except Exception:
            self._note(answer=False)
            raise
        self._note(answer=answer)

    def _note(self, *, answer: bool) -> None:
        with self._lock:
            self._answer, self._answered_at, self._asked_at = answer, time.monotonic(), None


@dataclass(frozen=True, slots=True)
class Condition:
    """The result of one look. ``work``: by tenant and type; ``beats``: names of beats that were heard of lately, the
    leader's among them; ``seen``: the rows that it is made of.
    """

    at: datetime
    figures: Figures
    work: Work
    beats: tuple[str, ...]
    seen: Seen
    upkeep: Upkeep


class Wellbeing:
    """Conditions, kept for ``KEPT_SECONDS``, one for each set of tenants whose triggers are looked at."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lanes = Lanes()
        self._turns: dict[frozenset[int] | None, Turns] = {}
        self._kept: dict[frozenset[int] | None, tuple[float, Condition]] = {}
        self._upkeep: tuple[float, Upkeep, bool] | None = None
        self._passed: dict[str, tuple[int, float]] = {}
        self.broker = Answering(broker_answers)
        self.rates = Answering(limits.counted_together)

    def look(self, tenant_ids: frozenset[int] | None = None) -> Condition:
        """How things are, or were a moment ago. ``tenant_ids``: the tenants whose triggers count; None: all tenants."""
        with self._lock:
            kept_until, condition = self._kept.get(tenant_ids, (0.0, None))
            if condition is None or time.monotonic() >= kept_until:
                condition = self._look(tenant_ids)
                if len(self._kept) >= MAX_KEPT:
                    self._kept.clear()
                    self._turns.clear()
                self._kept[tenant_ids] = (time.monotonic() + KEPT_SECONDS, condition)
            return condition

    def forget(self) -> None:
        """Forget all conditions: the next call looks again."""
        with self._lock:
            self._kept.clear()
            self._turns.clear()
            self._upkeep = None
            self._lanes = Lanes()

    def _look(self, tenant_ids: frozenset[int] | None) -> Condition:
        settings = engine_settings()
        now, lanes = database_now(), self._lanes.look()
        seen = overview.look(None if tenant_ids is None else sorted(tenant_ids))
        if tenant_ids is not None:
            lanes = {lane: floor for lane, floor in lanes.items() if lane.tenant_id in tenant_ids}
        upkeep, limited = self._look_at_upkeep(settings)
        turns = self._turns.setdefault(tenant_ids, Turns())
        work = work_of(seen, lanes, turns, now=now)
        figures = _figures_of(seen, upkeep, work, settings=settings)
        figures = replace(
            figures,
            broker=self.broker(),
            rates=not limited or self.rates(),
            bypassed=self._bypassed({row.name: row.rate_limit_bypassed for row in seen.clocks}),
        )
        beats = tuple(sorted(row.name for row in seen.clocks if row.name.startswith("beat@")))
        return Condition(now, figures, work, beats, seen, upkeep)

    def _look_at_upkeep(self, settings: EngineSettings) -> tuple[Upkeep, bool]:
        """The figures that change slowly, and whether there are rate limits."""
        if self._upkeep is None or time.monotonic() >= self._upkeep[0]:
            found = overview.upkeep(retention=timedelta(days=settings.history_days))
            self._upkeep = (time.monotonic() + UPKEEP_SECONDS, found, limits_exist())
        return self._upkeep[1:]

    def _bypassed(self, counts: Mapping[str, int]) -> tuple[str, ...]:
        """Processes whose count was seen to go up within ``BYPASS_SECONDS``."""
        now = time.monotonic()
        for name, count in counts.items():
            before, _ = self._passed.get(name, (count, 0.0))
            if count > before:
                self._passed[name] = (count, now)
            else:
                self._passed.setdefault(name, (count, float("-inf")))
        self._passed = {name: kept for name, kept in self._passed.items() if name in counts}
        return tuple(name for name, (_, rose_at) in self._passed.items() if now - rose_at < BYPASS_SECONDS)


def _figures_of(seen: Seen, upkeep: Upkeep, work: Work, *, settings: EngineSettings) -> Figures:
    lease = next((row for row in seen.leases if row.name == "leader"), None)
    levers = seen.levers
    return Figures(
        election=settings.leader_election,
        leader=lease
        and LeaderFigures(
            holder=lease.holder,
            seconds_left=lease.seconds_left,
            lease_seconds=settings.leader_lease_seconds,
        ),
        brokerless=settings.brokerless_fallback,
        stopped=Stopped(by=levers.stopped_by, reason=levers.stop_reason, seconds=levers.stopped_seconds)
        if levers.stopped
        else None,
        types=work.types,
        workers=_workers_of(seen, reserved=settings.reserved_slots),
        tenants=work.tenants,
        missed=work.missed,
        lost=work.lost,
        clocks=tuple(
            ClockFigures(name=row.name, off_seconds=off)
            for row in seen.clocks
            if (off := abs(row.offset_seconds) - row.within_seconds) > clocks.TOLERATED_SECONDS
        ),
        shared_names=tuple(shared_names(seen.workers)),
        partitions={row.name: row.seconds for row in upkeep.partitions},
        open_breakers=levers.open_breakers,
        open_targets=tuple(OpenBreaker(target=row.target, tenant=row.tenant) for row in seen.breakers),
        paused_targets=levers.paused_targets,
        materialization_lag_seconds=upkeep.ahead.materialization_lag_seconds,
        feed_lag_seconds=upkeep.feed_lag_seconds,
        past_retention=upkeep.past_retention,
        connections=(upkeep.connections.used, upkeep.connections.most),
        lag_warn_seconds=settings.lag_warn_seconds,
    )


def _workers_of(seen: Seen, *, reserved: int) -> tuple[WorkerFigures, ...]:
    running = {row.worker: row.count for row in seen.in_flight if row.worker}
    return tuple(
        WorkerFigures(
            name=row.name,
            takes=frozenset(queue.removeprefix("jobs.") for queue in row.queues),
            slots=row.concurrency - min(reserved, row.concurrency - 1),
            # A pull worker alone knows how much room it has and when it asks next.
            running=row.concurrency if _is_pull(row) else running.get(row.name, 0),
            silent_seconds=0 if _is_pull(row) else row.silent_seconds,
        )
        for row in seen.workers
    )


def _is_pull(worker: object) -> bool:
    return any(is_pull(queue) for queue in worker.queues)  # type: ignore[attr-defined]


#: The one of this process.
wellbeing = Wellbeing()

"""Reads of the console's first page: one bounded look at work in flight, due and late, and at trouble, by tenant.

At most ``MAX_LANES`` lanes are walked at a time. If there are more, each look goes on where the last one ended, and
uses the findings of earlier looks for the others.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from jobs.store import db, partitions
from jobs.store.events import notices
from jobs.store.insight import clocks, workers
from jobs.store.insight.metrics import MAX_AHEAD, MAX_BREAKERS, MAX_LEASES, MAX_OLDEST, MAX_RUNS, MAX_TASKS
from jobs.store.purge import first_id_within

_SQL = db.queries("overview")
_METRICS = db.queries("metrics")
_SWEEP = db.queries("dispatch")["sweep"]
MAX_LANES = 1_000
#: The most rows of triggers in flight, and the most minutes with trouble, of a tenant and type each.
MAX_IN_FLIGHT, MAX_TROUBLES = 1_000, 2_000
#: The most open circuit breakers that are named.
MAX_BREAKERS_NAMED = 5
#: Due triggers are counted up to this in each lane.
MAX_DUE = 1_000


class Lane(NamedTuple):
    tenant_id: int
    job_type: str
    priority: int


_START = Lane(-1, "", 0)


class Lanes:
    """When the first trigger of each lane falls due, as far as it is known."""

    def __init__(self) -> None:
        self._known: dict[Lane, tuple[datetime, int]] = {}
        self._from = _START
        self._round = 0

    def look(self, *, limit: int = MAX_LANES) -> dict[Lane, datetime]:
        """Walk on. Lanes that a whole round did not meet are forgotten."""
        rows = _SWEEP(
            tenant_id=self._from.tenant_id,
            job_type=self._from.job_type,
            priority=self._from.priority,
            limit=limit,
        )
        found = {Lane(row.tenant_id, row.job_type, row.priority): row.floor for row in rows}
        self._known |= {lane: (floor, self._round) for lane, floor in found.items()}
        if len(rows) == limit:
            self._from = next(reversed(found))
        else:
            self._known = {lane: seen for lane, seen in self._known.items() if seen[1] == self._round}
            self._from, self._round = _START, self._round + 1
        return {lane: floor for lane, (floor, _) in self._known.items()}


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows of ``sql/overview.sql`` and ``metrics.sql``. ``cut``: tenants with little in flight are left out."""

    in_flight: list[Any]
    cut: bool
    troubles: list[Any]
    queues: list[Any]
    levers: Any
    breakers: list[Any]
    leases: list[Any]
    clocks: list[Any]
    workers: list[Any]


def look(tenant_ids: Sequence[int] | None) -> Seen:
    """``tenant_ids``: whose triggers are looked at; None: all tenants'. Raises one of ``db.DISCONNECTED``."""
    ids = None if tenant_ids is None else list(tenant_ids)
    in_flight = _SQL["in_flight"](tenant_ids=ids, limit=MAX_IN_FLIGHT)
    levers = _METRICS["levers"](limit=MAX_BREAKERS)[0]
    named = _SQL["breakers"](tenant_ids=ids, limit=MAX_BREAKERS_NAMED) if levers.open_breakers else []
    return Seen(
        in_flight=in_flight,
        cut=len(in_flight) == MAX_IN_FLIGHT,
        troubles=_SQL["troubles"](tenant_ids=ids, limit=MAX_TROUBLES),
        queues=_METRICS["queues"](),
        levers=levers,
        breakers=named,
        leases=_METRICS["leases"](limit=MAX_LEASES),
        clocks=clocks.present(),
        workers=workers.present(),
    )


def count_due(lanes: Sequence[Lane]) -> dict[int, int]:
    """How many triggers of these lanes are due, by tenant; up to ``MAX_DUE`` of each lane."""
    counts: dict[int, int] = {}
    if lanes:
        rows = _SQL["due"](
            tenant_ids=[lane.tenant_id for lane in lanes],
            job_types=[lane.job_type for lane in lanes],
            priorities=[lane.priority for lane in lanes],
            limit=MAX_DUE,
        )
        for row in rows:
            counts[row.tenant_id] = counts.get(row.tenant_id, 0) + row.count
    return counts


class Turns:
    """Finds the tenants with triggers dispatched since they were last asked for: dispatch works for these."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, datetime], int] | None = None

    def since_last(self, tenant_ids: Collection[int]) -> frozenset[int]:
        """Empty the first time."""
        rows = _SQL["dispatched"](tenant_ids=list(tenant_ids)) if tenant_ids else []
        before, self._known = self._known, {(row.tenant_id, row.minute): row.count for row in rows}
        if before is None:
            return frozenset()
        return frozenset(
            row.tenant_id for row in rows if row.count > before.get((row.tenant_id, row.minute), 0)
        )


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Figures that change slowly: work that is late before it is due, retention, partitions, connections."""

    ahead: Any
    feed_lag_seconds: float
    past_retention: int
    partitions: list[Any]
    connections: Any


def upkeep(*, retention: timedelta) -> Upkeep:
    [past] = _METRICS["past_retention"](
        before_id=first_id_within(retention), retention=retention, limit=MAX_OLDEST
    )
    [ahead] = _METRICS["ahead"](limit=MAX_AHEAD, runs=MAX_RUNS, tasks=MAX_TASKS)
    return Upkeep(
        ahead=ahead,
        feed_lag_seconds=notices.feed_lag_seconds(ahead),
        past_retention=past.count,
        partitions=_METRICS["partitions_ahead"](tables=[table.table for table in partitions.ALL]),
        connections=_METRICS["connections"]()[0],
    )

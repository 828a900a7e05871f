"""Figures for monitoring: one bounded look at past work, waiting work, leases, clocks and room."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.store import db, partitions
from jobs.store.events import notices
from jobs.store.insight import clocks, workers
from jobs.store.purge import first_id_within

_SQL = db.queries("metrics")
MAX_LEASES = 1_000
#: Due triggers are counted exactly up to ``MAX_OF_LANE`` in each of ``MAX_LANES`` lanes, and ``MAX_PARKED`` parked ones
#: of each cause are looked at. Lags tell the rest.
MAX_LANES, MAX_OF_LANE = 100, 1_000
MAX_PARKED = 2_000
MAX_BREAKERS = 10_000
#: The most workflow runs that are counted while they go on, and the most of their tasks.
MAX_RUNS, MAX_TASKS = 10_000, 20_000
#: The most jobs and catch-ups of a stage that are looked at, and the most messages.
MAX_AHEAD, MAX_MESSAGES = 1_000, 10_000
#: How many of the oldest triggers are looked at for those that retention should have dropped.
MAX_OLDEST = 2_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows of ``sql/metrics.sql``, and the clocks and workers that are there."""

    totals: list[Any]
    own: list[Any]
    ahead: Any
    feed_lag_seconds: float
    messages: list[Any]
    in_flight: list[Any]
    due: list[Any]
    parked: list[Any]
    queues: list[Any]
    levers: Any
    leases: list[Any]
    past_retention: int
    partitions: list[Any]
    strays: dict[str, int]
    connections: Any
    clocks: list[Any]
    workers: list[Any]


def figures(*, retention: timedelta) -> Figures:
    """Runs several statements, each bounded, and reads the time. Raises one of ``db.DISCONNECTED``."""
    [past] = _SQL["past_retention"](
        before_id=first_id_within(retention), retention=retention, limit=MAX_OLDEST
    )
    [ahead] = _SQL["ahead"](limit=MAX_AHEAD, runs=MAX_RUNS, tasks=MAX_TASKS)
    return Figures(
        totals=_SQL["totals"](),
        own=_SQL["own"](),
        ahead=ahead,
        feed_lag_seconds=notices.feed_lag_seconds(ahead),
        messages=_SQL["messages"](limit=MAX_MESSAGES),
        in_flight=_SQL["in_flight"](),
        due=_SQL["due"](lanes=MAX_LANES, limit=MAX_OF_LANE),
        parked=_SQL["parked"](limit=MAX_PARKED),
        queues=_SQL["queues"](),
        levers=_SQL["levers"](limit=MAX_BREAKERS)[0],
        leases=_SQL["leases"](limit=MAX_LEASES),
        past_retention=past.count,
        partitions=_SQL["partitions_ahead"](tables=[table.table for table in partitions.ALL]),
        strays=partitions.strays(),
        connections=_SQL["connections"]()[0],
        clocks=clocks.present(),
        workers=workers.present(),
    )

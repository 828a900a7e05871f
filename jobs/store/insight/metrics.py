"""What monitoring is shown: one bounded look at queues, lags, leases, clocks and outcomes."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.store import db
from jobs.store.history import first_id_within
from jobs.store.insight import clocks, workers

_SQL = db.queries("metrics")
#: Outcomes are told of so many of the latest attempts, at most.
MAX_ATTEMPTS = 10_000
MAX_LEASES = 1_000
#: Ids are stamped by processes' clocks, which may be off.
_CLOCKS_APART = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows of ``sql/metrics.sql``, and the clocks and workers that are there."""

    in_flight: list[Any]
    waiting: list[Any]
    queues: list[Any]
    leases: list[Any]
    outcomes: list[Any]
    statistics: Any
    clocks: list[Any]
    workers: list[Any]


def figures() -> Figures:
    """Nine statements, each bounded. Raises one of ``db.DISCONNECTED``."""
    return Figures(
        in_flight=_SQL["in_flight"](),
        waiting=_SQL["waiting"](),
        queues=_SQL["queues"](),
        leases=_SQL["leases"](limit=MAX_LEASES),
        outcomes=_SQL["outcomes"](after=first_id_within(_CLOCKS_APART), limit=MAX_ATTEMPTS),
        statistics=_SQL["statistics"]()[0],
        clocks=clocks.present(),
        workers=workers.present(),
    )

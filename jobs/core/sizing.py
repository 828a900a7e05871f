"""How much an installation needs for a load: formulas over measured costs. Pure; ``manage.py size`` prints it.

Each cost stands here once, with its source. A figure is an estimate for planning: the costs were measured on one
machine of two cores that ran everything (docs/benchmarks.md). tests/engine/test_bytes.py checks the bytes on tables.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from jobs.core.errors import InvalidInput


class Cost(NamedTuple):
    """``value`` in ``unit``, and where it comes from."""

    value: float
    unit: str
    source: str


_BENCHES = "docs/benchmarks.md, Figures: "
_TABLES = "tests/engine/test_bytes.py: real tables and indexes after vacuum, a noop firing"
_CONNECTIONS = 'docs/operations.md, "Postgres"'
_REPLICA = 'docs/operations.md, "A replica"'
_PSS = "proportional set size of processes of test clusters under load, the largest seen, rounded up"
COSTS: Mapping[str, Cost] = {
    "carried": Cost(8942, "firings a second", _BENCHES + "throughput, end to end, one Postgres on two cores"),
    "comfortable": Cost(0.5, "times carried", _BENCHES + "lag at half of capacity: p99 80 ms"),
    "slot_rate": Cost(4471, "firings a second", _BENCHES + "throughput by two worker processes"),
    "calls_in_flight": Cost(
        200, "webhooks in flight per process", "a third of its 600 places: the share of one tenant"
    ),
    "calls_rate": Cost(1641, "webhooks a second", _BENCHES + "webhook, 3,282 by two processes"),
    "busy": Cost(0.7, "share of slots in use", "a choice: the rest is for peaks and retries"),
    "pool": Cost(8, "slots per worker", "a choice: --concurrency 8"),
    "trigger_bytes": Cost(1_150, "bytes", _TABLES),
    "attempt_bytes": Cost(570, "bytes", _TABLES),
    "event_bytes": Cost(630, "bytes", _TABLES),
    "purged": Cost(
        1000, "triggers a second", "jobs/engine/housekeeper.py: a batch of 1,000, about once a second"
    ),
    "free_disk": Cost(0.3, "share of the disk", "a choice: room for vacuum, sorting and the write-ahead log"),
    "wal_bytes": Cost(2 * 2**30, "bytes", "Postgres: twice max_wal_size's default of 1 GiB"),
    "slot_connections": Cost(3, "connections per slot", _CONNECTIONS),
    "beat_connections": Cost(4, "connections of a leading beat", _CONNECTIONS),
    "web_connections": Cost(
        17, "connections per web process", _CONNECTIONS + ": 16 threads, and one for its counts"
    ),
    "worker_connections": Cost(1, "connection of a worker's main process", _CONNECTIONS),
    "watch_connections": Cost(
        1, "connection of a web process to the primary, to watch the replica", _REPLICA
    ),
    "replica_connections": Cost(
        17, "connections to the replica per web process", _REPLICA + ": 16 threads, and one that watches it"
    ),
    "spare_connections": Cost(10, "connections", "a choice: psql, migrate, dumps, monitoring"),
    "slot_mib": Cost(90, "MiB", _PSS),
    "worker_mib": Cost(90, "MiB", _PSS + "; the process above the pool"),
    "beat_mib": Cost(135, "MiB", _BENCHES + "herd of 1,000,000, the leader's peak"),
    "web_mib": Cost(125, "MiB", _PSS),
    "connection_mib": Cost(10, "MiB", "a rule of thumb for a Postgres connection with kept plans"),
}
BEATS, WEB_PROCESSES, MIN_WORKERS = 2, 4, 2
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Load:
    """A load. ``runtime_seconds``: of a handler or a target. ``kept_bytes``: an attempt's result and output.
    ``replica``: history is read from a replica.

    Raises ``InvalidInput`` that names each field out of its bounds.
    """

    firings_per_second: float
    runtime_seconds: float
    retention_days: float
    attempts: float = 1.0
    tenants: int = 1
    kept_bytes: int = 0
    webhooks: bool = False
    all_events: bool = False
    replica: bool = False

    def __post_init__(self) -> None:
        wrong = {
            name: f"Must be from {low:,} to {high:,}, not {getattr(self, name):,}."
            for name, (low, high) in BOUNDS.items()
            if not low <= getattr(self, name) <= high  # false for nan, too
        }
        if wrong:
            raise InvalidInput(wrong)


BOUNDS: Mapping[str, tuple[float, float]] = {
    "firings_per_second": (0.0001, 1_000_000),
    "runtime_seconds": (0, 86_400),
    "retention_days": (1, 3650),
    "attempts": (1, 100),
    "tenants": (1, 1_000_000),
    "kept_bytes": (0, 10_000_000),
}


class Need(NamedTuple):
    """A figure, and the formula with its numbers in place."""

    value: float
    unit: str
    formula: str


@dataclass(frozen=True)
class Sizing:
    """The needs, by name, and notes on them in sentences."""

    needs: Mapping[str, Need]
    notes: tuple[str, ...]


def size(load: Load) -> Sizing:
    """The needs of ``load``."""
    needs: dict[str, Need] = {}
    needs["in_flight"] = Need(
        load.firings_per_second * load.attempts * load.runtime_seconds,
        "attempts at a time, on average",
        f"{_n(load.firings_per_second)} firings a second * {_n(load.attempts)} attempts * {_n(load.runtime_seconds)} s",
    )
    needs |= _processes(load, needs["in_flight"].value)
    needs |= _servers(load, needs)
    return Sizing(needs, tuple(_notes(load, needs)))


def _processes(load: Load, in_flight: float) -> dict[str, Need]:
    rate = load.firings_per_second * load.attempts
    busy, pool = _cost("busy"), int(_cost("pool"))
    if load.webhooks:
        at_once, pace = _cost("calls_in_flight"), _cost("calls_rate")
        slots = math.ceil(max(in_flight / at_once, rate / pace) / busy)
        either = f"{_n(in_flight)} in flight / {_n(at_once)}, {_n(rate)} a second / {_n(pace)}"
        formula = f"max({either}) / {busy}"
    else:
        slots = math.ceil((in_flight + rate / _cost("slot_rate")) / busy)
        formula = f"({_n(in_flight)} in flight + {_n(rate)} a second / {_n(_cost('slot_rate'))}) / {busy}"
    slots = max(MIN_WORKERS, slots)
    workers = max(MIN_WORKERS, math.ceil(slots / pool))
    return {
        "worker_slots": Need(slots, "pool processes", f"{formula}, at least {MIN_WORKERS}"),
        "workers": Need(
            workers, "workers", f"{slots} slots / {pool}, at least {MIN_WORKERS} on different machines"
        ),
        "beats": Need(BEATS, "beats", "one leader, and one standby on another machine"),
        "web_processes": Need(
            WEB_PROCESSES, "web processes", "two web servers of two processes each; more for many API calls"
        ),
    }


def _servers(load: Load, needs: Mapping[str, Need]) -> dict[str, Need]:
    numbers = {
        "slot": (needs["worker_slots"].value, "slots"),
        "worker": (needs["workers"].value, "workers"),
        "beat": (BEATS, "beats"),
        "web": (WEB_PROCESSES, "web processes"),
    }
    watch = {"watch": (WEB_PROCESSES, "watches of the replica")} if load.replica else {}
    connections, terms = _sum(numbers | watch, "connections")
    spare = _cost("spare_connections")
    memory, terms_of_memory = _sum(numbers, "mib")
    each, rate = _cost("connection_mib"), load.firings_per_second * load.attempts
    total = connections + spare
    return {
        "connections": Need(total, "max_connections", f"{terms} + {_n(spare)} spare"),
        "memory_of_processes": Need(memory, "MiB", terms_of_memory),
        "memory_of_connections": Need(
            total * each, "MiB in Postgres, in addition to shared_buffers", f"{_n(total)} * {_n(each)}"
        ),
        **(_connections_of_replica() if load.replica else {}),
        **_disk(load),
        "share_of_one_postgres": Need(
            round(rate / _cost("carried"), 5),
            "of the capacity of one Postgres",
            f"{_n(rate)} / {_n(_cost('carried'))} a second",
        ),
    }


def _connections_of_replica() -> dict[str, Need]:
    connections, terms = _sum({"replica": (WEB_PROCESSES, "web processes")}, "connections")
    spare = _cost("spare_connections")
    need = Need(connections + spare, "max_connections of the replica", f"{terms} + {_n(spare)} spare")
    return {"connections_to_the_replica": need}


def _sum(numbers: Mapping[str, tuple[float, str]], cost: str) -> tuple[float, str]:
    """The number of each kind times its ``cost``: the sum, and its terms."""
    each = {kind: _cost(f"{kind}_{cost}") for kind in numbers}
    terms = (f"{_n(count)} {name} * {_n(each[kind])}" for kind, (count, name) in numbers.items())
    return sum(count * each[kind] for kind, (count, _) in numbers.items()), " + ".join(terms)


def _disk(load: Load) -> dict[str, Need]:
    firing, free, log = _bytes_of_a_firing(load), _cost("free_disk"), _cost("wal_bytes")
    kept = load.firings_per_second * 86_400 * load.retention_days
    disk = (kept * firing.value + log) / (1 - free) / GIB
    return {
        "bytes_of_a_firing": firing,
        "firings_kept": Need(
            kept, "firings", f"{_n(load.firings_per_second)} * 86,400 s * {_n(load.retention_days)} days"
        ),
        "disk": Need(
            round(disk, 1),
            "GiB",
            f"({_n(kept)} * {_n(firing.value)} + {_n(log)} of log) / (1 - {free}) / 1,073,741,824",
        ),
    }


def _bytes_of_a_firing(load: Load) -> Need:
    trigger, attempt, event = (_cost(f"{kind}_bytes") for kind in ("trigger", "attempt", "event"))
    total = trigger + load.attempts * (attempt + load.kept_bytes) + (event if load.all_events else 0)
    attempts = f"{_n(load.attempts)} * ({_n(attempt)} an attempt + {_n(load.kept_bytes)} kept)"
    formula = f"{_n(trigger)} a trigger + {attempts}" + (
        f" + {_n(event)} an event" if load.all_events else ""
    )
    return Need(total, "bytes, including indexes", formula)


def _notes(load: Load, needs: Mapping[str, Need]) -> list[str]:
    share = needs["share_of_one_postgres"].value
    notes = []
    if share > 1:
        notes.append(
            "This exceeds the capacity of one Postgres of two cores. Give it more cores and a faster disk, "
            "and measure (make bench NAME=throughput); beyond that, divide the tenants among installations: "
            "each has one primary."
        )
    elif share > _cost("comfortable"):
        notes.append(
            "This is above half of the capacity of one Postgres of two cores: firings start later, and "
            "peaks wait. Add cores."
        )
    else:
        notes.append("One Postgres of two cores handles this at no more than half of its capacity.")
    if load.firings_per_second > _cost("purged"):
        notes.append(
            f"Retention deletes at most {_n(_cost('purged'))} triggers a second: history grows beyond its "
            "retention."
        )
    if needs["connections"].value > 500:
        notes.append("Above about 500 connections put a pooler in session mode in front of Postgres.")
    if load.tenants > 10_000:
        notes.append(
            "Fair dispatch was measured with up to 10,000 tenants that have work due (docs/benchmarks.md, tenants)."
        )
    return notes


def _cost(name: str) -> float:
    return COSTS[name].value


def _n(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.4g}"


def inputs_of(load: Load) -> dict[str, float | bool]:
    """The fields of ``load``, by name."""
    return {field.name: getattr(load, field.name) for field in fields(load)}

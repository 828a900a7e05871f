"""Throughput: no-op triggers end to end, durable in Postgres, beside raw Celery no-ops.

Both use the same Redis and two prefork processes, one after the other. Ours is clocked by Postgres from the moment the
jobs became visible and due (nothing materialized yet) to the last recorded success; and once more for triggers that
were materialized before they fell due. Celery is clocked from the first publish to the empty queue, its publisher
running meanwhile, as it would.
"""

import time
from collections.abc import Mapping
from datetime import timedelta

from celery import Celery

from benchmarks import carillon
from benchmarks.peers import celery_noop
from benchmarks.report import Report, Row
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage

TRIGGERS = 20_000
PEERS = {
    "Celery, default settings": ("default", 10_000),
    "Celery, tuned transport": ("tuned", 20_000),
    "Celery, results in Postgres": ("results", 4_000),
}
LEAD = timedelta(seconds=8)
WARM_UP = 200
APP = "benchmarks.peers.celery_noop"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    peers = {name: _peer(stage, name, kind, int(count * scale)) for name, (kind, count) in PEERS.items()}
    end_to_end, drained = _ours(stage, int(TRIGGERS * scale))
    first = next(iter(peers.values()))
    figures = {"Carillon, end to end": end_to_end, "Carillon, materialized ahead": drained, **peers}
    return Report(
        name="throughput",
        title=f"No-op triggers per second ({WORKER_PROCESSES} worker processes)",
        unit="per second",
        ours=end_to_end,
        peer=first,
        ratio=end_to_end / first,
        columns=("per second", "ratio"),
        rows=tuple(Row(name, (f"{rate:,.0f}", f"{rate / first:.2f}")) for name, rate in figures.items()),
        more={
            "ours_materialized_ahead": round(drained),
            "triggers": int(TRIGGERS * scale),
            "peers": {name: round(rate) for name, rate in peers.items()},
        },
    )


def _ours(stage: Stage, count: int) -> tuple[float, float]:
    with carillon.running(stage):
        due_at = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        carillon.drain(stage, carillon.WARM_UP + count, what=f"Carillon: {count:,} triggers end to end")
        end_to_end = count / (carillon.last_finished_at(stage) - due_at).total_seconds()

        due_at = carillon.add_one_time_jobs(stage, count, due_in=LEAD)
        stage.must("Carillon: materializing ahead", lambda: carillon.materialized(stage))
        if stage.value("SELECT clock_timestamp()") > due_at:
            raise BenchError("materializing took longer than the lead it had")
        carillon.drain(
            stage, carillon.WARM_UP + 2 * count, what=f"Carillon: {count:,} triggers, materialized"
        )
        drained = count / (carillon.last_finished_at(stage) - due_at).total_seconds()
    return end_to_end, drained


def _peer(stage: Stage, name: str, kind: str, count: int) -> float:
    stage.empty()
    environment = {"BENCH_PEER": kind, "BENCH_BROKER": stage.broker_url}
    argv = ("-m", "celery", "-A", APP, "worker", "-c", str(WORKER_PROCESSES))
    with stage.actor(f"celery-{kind}", argv, environment=environment):
        _publish_and_drain(stage, f"{name}: warming up", WARM_UP, environment)
        seconds = _publish_and_drain(stage, f"{name}: {count:,} no-ops", count, environment)
        _check_all_executed(stage, name, WARM_UP + count)
        return count / seconds


def _publish_and_drain(stage: Stage, what: str, count: int, environment: Mapping[str, str]) -> float:
    """Publish from a process of its own; seconds from its first publish until nothing waits or is unacknowledged."""
    with stage.actor(
        "publisher", ("-m", APP, str(count)), environment=environment, may_end=True
    ) as publisher:
        stage.must(
            what,
            lambda: (
                publisher.process.poll() == 0
                and not stage.redis.llen(celery_noop.QUEUE)
                and not stage.redis.hlen("unacked")
            ),
        )
        ended_at = time.time()
        return ended_at - float(publisher.log.read_text())


def _check_all_executed(stage: Stage, name: str, count: int) -> None:
    app = Celery(broker=stage.broker_url)

    def executed() -> bool:
        answers = app.control.inspect(timeout=1).stats() or {}
        return sum(answer["total"].get("noop", 0) for answer in answers.values()) == count

    stage.must(f"{name}: checking that all were executed", executed, timeout_seconds=20)

"""Throughput: no-op triggers end to end, durable in Postgres, beside raw Celery no-ops.

Both use the same Redis and two prefork processes, in turns, so that a busy moment of the machine strikes both; medians
are compared. Ours is clocked by Postgres from the moment the
jobs became visible and due (nothing materialized yet) to the last recorded success; and once more for triggers that
were materialized before they fell due. Celery is clocked from the first publish to the empty queue, its publisher
running meanwhile, as it would.
"""

import time
from collections.abc import Mapping
from datetime import timedelta
from statistics import median

from celery import Celery

from benchmarks import carillon
from benchmarks.peers import celery_noop
from benchmarks.report import Report, Row
from benchmarks.stage import WORKER_PROCESSES, BenchError, Stage

ROUNDS = 3
TRIGGERS = 20_000
FIRST_PEER, FIRST_PEER_COUNT = "Celery, default settings", 6_000
OTHER_PEERS = {
    "Celery, tuned transport": ("tuned", 20_000),
    "Celery, results in Postgres": ("results", 3_000),
}
LEAD = timedelta(seconds=6)
WARM_UP = 200
APP = "benchmarks.peers.celery_noop"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    count = int(TRIGGERS * scale)
    ours, ahead, first_peer = [], [], []
    for _ in range(ROUNDS):
        first_peer.append(_peer(stage, FIRST_PEER, "default", int(FIRST_PEER_COUNT * scale)))
        with carillon.running(stage):
            ours.append(_end_to_end(stage, count))
            ahead.append(_materialized_ahead(stage, count))
    first = median(first_peer)
    rates = {
        "Carillon, end to end": ours,
        "Carillon, materialized ahead": ahead,
        FIRST_PEER: first_peer,
        **{name: [_peer(stage, name, kind, int(n * scale))] for name, (kind, n) in OTHER_PEERS.items()},
    }
    return Report(
        name="throughput",
        title=f"No-op triggers per second ({WORKER_PROCESSES} worker processes)",
        unit="per second",
        ours=median(ours),
        peer=first,
        ratio=median(ours) / first,
        columns=("median", "lowest", "highest", "ratio"),
        rows=tuple(
            Row(name, (*(f"{of(found):,.0f}" for of in (median, min, max)), f"{median(found) / first:.2f}"))
            for name, found in rates.items()
        ),
        more={
            "triggers": count,
            "rates": {name: [round(rate) for rate in found] for name, found in rates.items()},
        },
    )


def _end_to_end(stage: Stage, count: int) -> float:
    """From jobs becoming visible and due, to the last success."""
    before = carillon.succeeded(stage)
    due_at = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
    carillon.drain(stage, before + count, what=f"Carillon: {count:,} triggers end to end")
    return count / (carillon.last_finished_at(stage) - due_at).total_seconds()


def _materialized_ahead(stage: Stage, count: int) -> float:
    """From the instant at which materialized triggers fall due, to the last success."""
    before = carillon.succeeded(stage)
    due_at = carillon.add_one_time_jobs(stage, count, due_in=LEAD)
    stage.must("Carillon: materializing ahead", lambda: carillon.materialized(stage))
    if stage.value("SELECT clock_timestamp()") > due_at:
        raise BenchError("materializing took longer than the lead it had")
    carillon.drain(stage, before + count, what=f"Carillon: {count:,} triggers, materialized ahead")
    return count / (carillon.last_finished_at(stage) - due_at).total_seconds()


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

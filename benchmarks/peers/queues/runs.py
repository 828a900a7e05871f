"""Raw Celery and procrastinate, driven: start workers, warm up, put no-ops in, and clock until all are done."""

import time
from collections.abc import Mapping

import psycopg
from celery import Celery

from benchmarks.stage import WORKER_PROCESSES, Stage

WARM_UP = 200
CELERY_MODULE, CELERY_QUEUE = "benchmarks.peers.queues.celery_noop", "bench-peer"
PROCRASTINATE_MODULE = "benchmarks.peers.queues.procrastinate_noop"
PROCRASTINATE = ("-m", "procrastinate", "--app", f"{PROCRASTINATE_MODULE}.app")
_LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
#: The last batch only: the warm-up was deferred before it.
_SECONDS = """
    WITH deferred AS (SELECT max(at) AS at FROM procrastinate_events WHERE type = 'deferred')
    SELECT extract(epoch FROM max(e.at) - (SELECT at FROM deferred))::float
    FROM procrastinate_events e WHERE e.type = 'succeeded'
"""


def celery(stage: Stage, kind: str, count: int) -> float:
    """No-ops a second with the settings that ``benchmarks.peers.queues.celery_noop`` calls ``kind``."""
    stage.empty()
    environment = {"BENCH_PEER": kind, "BENCH_BROKER": stage.broker_url}
    argv = ("-m", "celery", "-A", CELERY_MODULE, "worker", "-c", str(WORKER_PROCESSES))
    with stage.actor(f"celery-{kind}", argv, environment=environment):
        _publish_and_drain(stage, f"Celery, {kind}: warming up", WARM_UP, environment)
        seconds = _publish_and_drain(stage, f"Celery, {kind}: {count:,} no-ops", count, environment)
        _check_all_executed(stage, kind, WARM_UP + count)
        return count / seconds


def _publish_and_drain(stage: Stage, what: str, count: int, environment: Mapping[str, str]) -> float:
    """Publish from a process of its own. Returns the seconds from its first publish until all are acknowledged."""
    argv = ("-m", CELERY_MODULE, str(count))
    with stage.actor("publisher", argv, environment=environment, may_end=True) as publisher:
        stage.must(
            what,
            lambda: (
                publisher.ended() and not stage.redis.llen(CELERY_QUEUE) and not stage.redis.hlen("unacked")
            ),
            progress=lambda: f"{stage.redis.llen(CELERY_QUEUE):,} waiting",
        )
        ended_at = time.time()
        return ended_at - float(publisher.log.read_text())


def _check_all_executed(stage: Stage, kind: str, count: int) -> None:
    app = Celery(broker=stage.broker_url)

    def executed() -> bool:
        answers = app.control.inspect(timeout=1).stats() or {}
        return sum(answer["total"].get("noop", 0) for answer in answers.values()) == count

    stage.must(f"Celery, {kind}: checking that all were executed", executed, timeout_seconds=20)


def procrastinate(stage: Stage, count: int) -> float:
    """No-ops a second with as many worker processes as Carillon's, one job at a time each, as they come by default."""
    stage.empty()
    url = stage.database("bench_procrastinate")
    environment = {"BENCH_DATABASE": url}
    stage.run("procrastinate: schema", (*PROCRASTINATE, "schema", "--apply"), environment=environment)
    worker = (*PROCRASTINATE, "worker", "--concurrency", "1")
    with (
        psycopg.connect(url, autocommit=True) as db,
        stage.actor("procrastinate-1", worker, environment=environment),
        stage.actor("procrastinate-2", worker, environment=environment),
    ):
        for what, number in (("warming up", WARM_UP), (f"{count:,} no-ops", count)):
            stage.run(
                f"procrastinate: deferring for {what}",
                ("-m", PROCRASTINATE_MODULE, str(number)),
                environment=environment,
            )
            stage.must(f"procrastinate: {what}", lambda: not _value(db, _LEFT), poll_seconds=0.2)
        return count / _value(db, _SECONDS)


def _value(db: psycopg.Connection[tuple[float]], query: str) -> float:
    row = db.execute(query).fetchone()
    assert row is not None
    return row[0]

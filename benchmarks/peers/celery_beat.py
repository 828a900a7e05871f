"""Celery's own beat, with the default ``PersistentScheduler`` and a schedule of interval entries.

``BENCH_ENTRIES`` names a JSON file ``{entry name: seconds}``. Each entry stamps its start into Redis.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from celery import Celery

from benchmarks.stage import WORKER_PROCESSES, Actor, Stage

QUEUE = "bench-beat"
STAMPS_KEY = "bench-beat-stamps"
BROKER = os.environ.get("BENCH_BROKER", "memory://")
ENTRIES = os.environ.get("BENCH_ENTRIES")
APP = "benchmarks.peers.celery_beat"

app = Celery("bench-beat", broker=BROKER)
app.conf.update(
    task_default_queue=QUEUE, task_ignore_result=True, broker_connection_retry_on_startup=True, timezone="UTC"
)
if ENTRIES:
    app.conf.beat_schedule = {
        name: {"task": "stamp", "schedule": seconds, "args": (name,)}
        for name, seconds in json.loads(Path(ENTRIES).read_text()).items()
    }
_redis = redis.Redis.from_url(os.environ["BENCH_REDIS"]) if "BENCH_REDIS" in os.environ else None


@app.task(name="stamp")
def stamp(entry: str) -> None:
    """Record when this execution started, by the machine's clock."""
    assert _redis is not None
    _redis.rpush(STAMPS_KEY, f"{entry} {time.time():.6f}")


@contextmanager
def running(stage: Stage, entries: Mapping[str, float]) -> Iterator[tuple[Actor, Actor]]:
    """A beat with ``entries`` (seconds between firings each) and a worker. Yields both once entries fire."""
    stage.empty()
    with TemporaryDirectory(prefix="carillon-bench-beat-") as directory:
        schedule = Path(directory) / "entries.json"
        schedule.write_text(json.dumps(entries))
        environment = {
            "BENCH_BROKER": stage.broker_url,
            "BENCH_REDIS": stage.redis_url,
            "BENCH_ENTRIES": str(schedule),
        }
        celery = ("-m", "celery", "-A", APP)
        worker_argv = (*celery, "worker", "-c", str(WORKER_PROCESSES))
        beat_argv = (*celery, "beat", "--pidfile=", "-s", str(Path(directory) / "schedule"))
        with (
            stage.actor("celery-worker", worker_argv, environment=environment) as worker,
            stage.actor("celery-beat", beat_argv, environment=environment) as beat,
        ):
            yield beat, worker


def stamps(stage: Stage) -> dict[str, list[float]]:
    """When each entry's executions started, in order (Unix seconds)."""
    found: dict[str, list[float]] = {}
    for line in stage.redis.lrange(STAMPS_KEY, 0, -1):
        entry, at = line.decode().split()
        found.setdefault(entry, []).append(float(at))
    return {entry: sorted(starts) for entry, starts in found.items()}


def executed(stage: Stage) -> int:
    """How many executions have started so far."""
    return int(stage.redis.llen(STAMPS_KEY))

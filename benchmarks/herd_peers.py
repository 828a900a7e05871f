"""The herd's other schedulers: RedBeat, django-celery-beat and APScheduler, each run as its documentation says.

The beats have a Celery worker with as many processes as Carillon's; APScheduler executes in its own threads. An
execution stamps its start and does nothing else. Each peer runs ``run(stage, count, patience_seconds)`` and returns how
many schedules were executed, the seconds since all were due, and the scheduler's peak memory in MiB.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.peers.schedulers import stamps
from benchmarks.stage import WORKER_PROCESSES, BenchError, ManagedProcess, Stage

PATIENCE_SECONDS = 60.0
#: Time to register (a peer registers one by one) and to start, so that all are up and waiting when the herd falls due.
LEAD_SECONDS, LEAD_SECONDS_EACH = 7.0, 0.005
PACKAGE = "benchmarks.peers.schedulers"


def _redbeat(stage: Stage, count: int, patience: float) -> tuple[int, float, float]:
    return _beat(stage, "redbeat", "redbeat.RedBeatScheduler", count, patience)


def _django_beat(stage: Stage, count: int, patience: float) -> tuple[int, float, float]:
    scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
    return _beat(stage, "django_beat", scheduler, count, patience, database=True)


def _beat(
    stage: Stage, name: str, scheduler: str, count: int, patience: float, *, database: bool = False
) -> tuple[int, float, float]:
    """One of Celery's beats: registered by the module ``name``, then started with a worker."""
    stage.empty()
    environment = {"BENCH_BROKER": stage.broker_url, "BENCH_REDIS": stage.redis_url}
    if database:
        environment["BENCH_DATABASE"] = stage.database(f"bench_{name}")
    module = f"{PACKAGE}.{name}"
    register = ("-m", module, str(count), str(LEAD_SECONDS + LEAD_SECONDS_EACH * count))
    due_at = float(stage.run(f"{name}: registering {count:,} entries", register, environment=environment))
    celery = ("-m", "celery", "-A", module)
    worker = (*celery, "worker", "-c", str(WORKER_PROCESSES))
    beat = (*celery, "beat", "-S", scheduler, "--pidfile=")
    with ExitStack() as actors:
        actors.enter_context(stage.actor(f"{name}-worker", worker, environment=environment))
        leader = actors.enter_context(stage.actor(f"{name}-beat", beat, environment=environment))
        return _watch(stage, name, leader, count, due_at, patience)


def _apscheduler(stage: Stage, count: int, patience: float) -> tuple[int, float, float]:
    stage.empty()
    environment = {"BENCH_REDIS": stage.redis_url, "BENCH_DATABASE": stage.database("bench_apscheduler")}
    due_at = time.time() + LEAD_SECONDS + LEAD_SECONDS_EACH * count
    argv = ("-m", f"{PACKAGE}.apscheduler_jobs", str(count), str(due_at))
    with stage.actor("apscheduler", argv, environment=environment) as scheduler:
        return _watch(stage, "APScheduler", scheduler, count, due_at, patience)


def _watch(
    stage: Stage, name: str, scheduler: ManagedProcess, count: int, due_at: float, patience: float
) -> tuple[int, float, float]:
    if time.time() > due_at:
        raise BenchError(f"{name}: registering {count:,} entries took longer than it was given")
    complete = stage.wait(
        f"{name}: a herd of {count:,}",
        lambda: stamps.count(stage) >= count,
        timeout_seconds=due_at - time.time() + patience,
        progress=lambda: f"{stamps.count(stage):,} executed",
    )
    seconds = stamps.latest(stage) - due_at if complete else time.time() - due_at
    done = stamps.count(stage)
    if not done:
        raise BenchError(f"{name} executed nothing within {patience:g} s")
    return min(done, count), seconds, scheduler.peak_rss_mib()


#: The first one named is the one the ratio refers to.
PEERS: dict[str, Callable[[Stage, int, float], tuple[int, float, float]]] = {
    "RedBeat": _redbeat,
    "django-celery-beat": _django_beat,
    "APScheduler": _apscheduler,
}

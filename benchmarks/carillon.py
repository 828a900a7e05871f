"""Carillon as a contestant: its beat and worker by their ordinary commands, its jobs in bulk, its ledger read back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction

from benchmarks.stage import WORKER_PROCESSES, Actor, Stage

CELERY = ("-m", "celery", "-A", "scheduler_project")
BEAT = (*CELERY, "beat", "-S", "jobs.engine.beat:LeaderScheduler", "--pidfile=")
WORKER = (*CELERY, "worker", "-c", str(WORKER_PROCESSES), "--without-gossip", "--without-mingle")
TENANT = "bench"
WARM_UP = 400
#: The database keeps the time itself, so asking it rarely costs no precision and steals nothing from the measured.
POLL_SECONDS = 0.2
_UNFINISHED = (
    "SELECT EXISTS (SELECT 1 FROM jobs_trigger WHERE state IN ('pending', 'queued', 'running', 'retrying'))"
)
_IDLE = "SELECT NOT EXISTS (SELECT 1 FROM jobs_job WHERE status = 'active' AND next_fire_at IS NOT NULL)"


@contextmanager
def running(stage: Stage) -> Iterator[tuple[Actor, Actor]]:
    """A beat and a worker, warmed up on a tenant ``bench`` without caps. Yields both."""
    from tenants.actions import create_tenant

    stage.empty()
    create_tenant(slug=TENANT, max_in_flight=1_000_000)
    with stage.actor("worker", WORKER) as worker, stage.actor("beat", BEAT) as beat:
        add_one_time_jobs(stage, WARM_UP, due_in=timedelta())
        drain(stage, WARM_UP, what="warming up beat and worker")
        yield beat, worker


def add_one_time_jobs(
    stage: Stage, count: int, *, due_in: timedelta, spread: timedelta = timedelta()
) -> datetime:
    """Create no-op jobs that fall due from ``due_in`` after now on, evenly over ``spread``.

    Returns the database's clock just before they became visible, or the first due instant when that is later.
    """
    first: datetime = stage.value("SELECT clock_timestamp()") + due_in
    instants = [first + spread * i / count for i in range(count)]
    jobs = [
        {"schedule_type": "once", "run_at": at, "next_fire_at": at, "created_at": first} for at in instants
    ]
    return max(first, add_jobs(stage, jobs))


def add_interval_jobs(stage: Stage, intervals: list[timedelta]) -> datetime:
    """Create one no-op job for each interval; the first firing is one interval from now. Returns now."""
    now: datetime = stage.value("SELECT clock_timestamp()")
    jobs = [
        {"schedule_type": "interval", "interval": every, "next_fire_at": now + every, "created_at": now}
        for every in intervals
    ]
    add_jobs(stage, jobs)
    return now


def add_jobs(stage: Stage, jobs: list[dict[str, Any]]) -> datetime:
    """Insert jobs in bulk, and their timelines, as rows the API would write; valid since they were created.

    Returns the database's clock just before they are visible.
    """
    from jobs.models import Job
    from jobs.store.jobs import note_versions
    from tenants.models import Tenant

    common = {
        "tenant": Tenant.objects.get(slug=TENANT),
        "job_type": "noop",
        "timeout": timedelta(seconds=60),
        # Unless a bench says otherwise a late one still runs: what is measured is how fast all are done.
        "misfire_policy": "fire_all",
    }
    with transaction.atomic():
        created = Job.objects.bulk_create(
            [
                Job(**(common | job), name=uuid4().hex, partition_key=i % 256, updated_at=job["created_at"])
                for i, job in enumerate(jobs)
            ],
            batch_size=2000,
        )
        note_versions([job.id for job in created])
        visible: datetime = stage.value("SELECT clock_timestamp()")
    return visible


def materialized(stage: Stage) -> bool:
    """Whether every job's instants have their triggers."""
    return bool(stage.value(_IDLE))


def drain(stage: Stage, count: int, *, what: str, timeout_seconds: float = 300) -> None:
    """Wait until everything materialized and finished; raises ``BenchError`` unless ``count`` have succeeded in all."""
    stage.must(
        what,
        lambda: materialized(stage) and not stage.value(_UNFINISHED) and succeeded(stage) >= count,
        timeout_seconds=timeout_seconds,
        poll_seconds=POLL_SECONDS,
    )


def succeeded(stage: Stage) -> int:
    """How many triggers have succeeded so far."""
    return int(stage.value("SELECT count(*) FROM jobs_trigger WHERE state = 'succeeded'"))


def last_finished_at(stage: Stage) -> datetime:
    """When Postgres recorded the last success."""
    finished: datetime = stage.value("SELECT max(finished_at) FROM jobs_trigger WHERE state = 'succeeded'")
    return finished

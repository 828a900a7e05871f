"""Carillon's beat and worker, started by their ordinary commands, and the tenants they serve."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from benchmarks.carillon.ledger import drain
from benchmarks.carillon.registry import TENANT, add_one_time_jobs
from benchmarks.stage import WORKER_PROCESSES, ManagedProcess, Stage
from stage.processes import BEAT, CELERY

APP = "scheduler_project"
WORKER = (*CELERY, "worker", "-c", str(WORKER_PROCESSES), "--without-gossip", "--without-mingle")
WARM_UP = 400
#: One trigger a message, and each claim and each finish is a commit of its own.
WITHOUT_BATCHING = {"CARILLON_BATCHING": "0"}
#: By default a tenant's cap is out of reach, so that only the machine limits it.
NO_CAP = 1_000_000


def make_tenant(slug: str, **quotas: Any) -> None:
    """Create a tenant; ``quotas`` are its columns, such as ``weight``."""
    from tenants.actions import create_tenant

    create_tenant(slug=slug, **({"max_in_flight": NO_CAP} | quotas))


@contextmanager
def processes(
    stage: Stage, *, environment: Mapping[str, str] | None = None, app: str = APP
) -> Iterator[tuple[ManagedProcess, ManagedProcess]]:
    """A beat and a worker of the Celery ``app`` on the stored data. Yields both, which may still be starting."""
    worker_argv, beat_argv = (tuple(app if word == APP else word for word in argv) for argv in (WORKER, BEAT))
    with (
        stage.actor("worker", worker_argv, environment=environment) as worker,
        stage.actor("beat", beat_argv, environment=environment) as beat,
    ):
        yield beat, worker


@contextmanager
def running(
    stage: Stage, *, environment: Mapping[str, str] | None = None, app: str = APP, fresh: bool = True
) -> Iterator[tuple[ManagedProcess, ManagedProcess]]:
    """A beat and a worker, warmed up on a tenant ``bench`` without caps. Yields both.

    ``fresh`` first deletes all data stored before; otherwise the tenant must be there already.
    """
    if fresh:
        stage.empty()
        make_tenant(TENANT)
    with processes(stage, environment=environment, app=app) as (beat, worker):
        warm_up = add_one_time_jobs(stage, WARM_UP, due_in=timedelta())
        drain(stage, warm_up, what="warming up beat and worker")
        yield beat, worker

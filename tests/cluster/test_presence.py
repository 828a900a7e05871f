"""A real worker: on the list of workers while it takes messages, and its processes stand back behind it."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from scheduler_project.processes.up import SHARED_POOL_NICENESS
from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
Listed = list[tuple[str, list[str], int]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(beats=1, workers=1, CARILLON_POOL_NICENESS="") as stage:
        yield stage


def listed(stage: Stage) -> Listed:
    return stage.query("SELECT name, queues, concurrency FROM jobs_worker")


class TestWorker:
    def test_has_handlers_that_stand_back_on_busy_processors(self, stage: Stage) -> None:
        wait_until(lambda: listed(stage), timeout=90, what="the worker to be announced")
        worker = psutil.Process(stage.pids("worker")["worker1"])
        further = [child.nice() - worker.nice() for child in worker.children(recursive=True)]
        # The others guard the pool.
        assert further.count(int(SHARED_POOL_NICENESS)) == 2
        assert further.count(0) == len(further) - 2

    def test_is_on_the_list_for_as_long_as_it_takes_messages(self, stage: Stage) -> None:
        [(name, queues, concurrency)] = wait_until(
            lambda: listed(stage), timeout=90, what="the worker to be announced"
        )
        assert name.startswith("worker1@")
        assert {"jobs.noop", "jobs.webhook"} <= set(queues)
        assert concurrency == 2
        os.kill(stage.pids("worker")["worker1"], signal.SIGTERM)
        wait_until(lambda: not listed(stage), timeout=10, what="the worker to leave")
        wait_until(lambda: listed(stage), timeout=90, what="its successor to be announced")

"""A real worker on the list of workers: there once it takes messages, off it as soon as it is told to stop."""

import os
import signal

import pytest

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster


class TestWorker:
    def test_is_on_the_list_for_as_long_as_it_takes_messages(self) -> None:
        with Stage(beats=1, workers=1) as stage:

            def listed() -> list[tuple[str, list[str], int]]:
                return stage.query("SELECT name, queues, concurrency FROM jobs_worker")

            [(name, queues, concurrency)] = wait_until(listed, timeout=90, what="the worker to be announced")
            assert name.startswith("worker1@")
            assert {"jobs.noop", "jobs.webhook"} <= set(queues)
            assert concurrency == 2
            os.kill(stage.pids("worker")["worker1"], signal.SIGTERM)
            wait_until(lambda: not listed(), timeout=10, what="the worker to leave")
            wait_until(listed, timeout=90, what="its successor to be announced")

"""A beat that would sleep for ten seconds is woken by services and by workers, but not when Redis is away."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: The beat polls within this time; a trigger that starts much earlier was not found by polling.
SLEEP_SECONDS = 10
SOON_SECONDS = 2.0
RETRY = {"max_attempts": 2, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}
_LAGS = """
    SELECT extract(epoch FROM a.started_at - coalesce(before.finished_at, t.scheduled_for))::float
    FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id
    LEFT JOIN jobs_attempt before ON before.trigger_id = a.trigger_id AND before.number = a.number - 1
    ORDER BY a.started_at
"""


SLEEPY = {
    "CARILLON_MAX_SLEEP_MS": str(SLEEP_SECONDS * 1000),
    "CARILLON_LEADER_LEASE_SECONDS": "40",  # renewed between two sleeps
    "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
}


@contextmanager
def staged(**how: Any) -> Iterator[Any]:
    """A stage with a tenant, whose key is its ``key``."""
    with Stage(workers=1, **how) as stage:
        stage.key = stage.create_tenant()
        yield stage


@pytest.fixture(scope="class")
def stage() -> Iterator[Any]:
    with staged(beats=1, **SLEEPY) as stage:
        yield stage


def create(stage: Any, **definition: Any) -> str:
    return str(stage.call("POST", "/jobs", key=stage.key, body={"payload": {}, **definition})["id"])


def lags(stage: Any, job_id: str, *, attempts: int) -> list[float]:
    """For each attempt of the job: seconds from its request, or from the failure before it, to its start."""
    query = _LAGS.replace("ORDER", f"WHERE a.job_id = '{job_id}' ORDER")
    found = wait_until(
        lambda: len(rows := stage.query(query)) >= attempts and rows,
        timeout=4 * SLEEP_SECONDS,
        what=f"{attempts} attempts",
    )
    return [lag for (lag,) in found]


class TestABeatAsleep:
    def test_is_woken_by_an_immediate_job_each_time(self, stage: Any) -> None:
        for _ in range(4):
            job = create(stage, job_type="noop", schedule={"type": "immediate"})
            assert max(lags(stage, job, attempts=1)) < SOON_SECONDS

    def test_is_woken_by_run_now_each_time(self, stage: Any) -> None:
        schedule = {"type": "interval", "every_seconds": 86_400}
        job = create(stage, name="daily", job_type="noop", schedule=schedule)
        for number in range(4):
            stage.call("POST", f"/jobs/{job}/run", key=stage.key)
            assert max(lags(stage, job, attempts=number + 1)) < SOON_SECONDS

    def test_is_woken_by_a_worker_whose_trigger_is_soon_tried_again(self, stage: Any) -> None:
        for _ in range(4):
            job = create(
                stage, job_type="test.raises_late", schedule={"type": "immediate"}, retry_policy=RETRY
            )
            _, retry = lags(stage, job, attempts=2)
            assert 0.1 <= retry < SOON_SECONDS


class TestABeatThatNobodyCanWake:
    def test_finds_by_looking_what_is_due(self) -> None:
        """The broker is reached, the carrier of wake-ups is not: services are answered, firings start a sleep later."""
        redis = Stage(beats=0, workers=0).environment["REDIS_URL"]
        broker = redis.replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")
        with staged(beats=1, redis_url="redis://127.0.0.1:1", BROKER_URL=broker) as stage:
            for _ in range(3):
                job = create(stage, job_type="noop", schedule={"type": "immediate"})
                assert max(lags(stage, job, attempts=1)) < SLEEP_SECONDS
            assert "wake-ups cannot be sent" in stage.log_path.read_text()

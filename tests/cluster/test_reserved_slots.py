"""Slots that workers keep free: a pool full of long work, and a critical firing starts at once all the same."""

from collections.abc import Iterator
from typing import Any

import pytest

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(
        beats=1,
        workers=1,
        CARILLON_RESERVED_SLOTS="1",
        CARILLON_HANDLER_MODULES="tests.cluster.handlers",
        CARILLON_QUEUE_WINDOW_INITIAL="16",
    ) as stage:
        yield stage


def running(stage: Stage, where: str = "true") -> int:
    [(count,)] = stage.query(f"SELECT count(*) FROM jobs_trigger WHERE state = 'running' AND {where}")
    return int(count)


def test_a_critical_firing_starts_beside_a_pool_full_of_ten_minute_work(stage: Stage) -> None:
    key = stage.create_tenant("acme", "--max-in-flight", "1000")

    def fire(count: int, **fields: Any) -> None:
        job = {"job_type": "test.heedless", "schedule": {"type": "immediate"}, "payload": {}}
        stage.call("POST", "/jobs/bulk", key=key, body={"jobs": [job | fields] * count})

    # More than the queue holds: it is full, too.
    fire(60, priority="low")
    wait_until(lambda: running(stage) == 1, timeout=60, what="the low work to run")
    wait_until(
        lambda: stage.query("SELECT FROM jobs_trigger WHERE state = 'queued' LIMIT 10")[9:],
        what="the queue to fill",
    )
    [(low,)] = stage.query("SELECT id FROM jobs_trigger WHERE priority = 3 AND state = 'running'")
    fire(1, priority="critical")
    wait_until(lambda: running(stage, "priority = 0") == 1, timeout=60, what="the critical one to run")
    # A worker of two processes keeps one of them. Low work holds the other, and none of it had to end first.
    assert stage.query("SELECT id FROM jobs_trigger WHERE priority = 3 AND state = 'running'") == [(low,)]
    assert stage.query("SELECT a.state FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id "
                       "WHERE t.priority = 3") == [("started",)]  # fmt: skip
    [(trigger,)] = stage.query("SELECT id FROM jobs_trigger WHERE priority = 3 AND state = 'queued' LIMIT 1")
    told = stage.call("GET", f"/triggers/{trigger}/explain", key=key)
    assert "for critical and high" in next(
        gate["detail"] for gate in told["gates"] if gate["gate"] == "worker"
    )

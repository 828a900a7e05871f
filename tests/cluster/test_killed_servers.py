"""``kill -9`` of the embedded Postgres and Redis under ``up``: they come back, and every firing happens once.

``KILLS`` says how often each is killed (five for the figures in docs/operations.md), and ``-s`` shows the figures.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import psutil
import pytest

from stage.waiting import wait_until
from tests.cluster.ledger import Periods, firings
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
KILLS = int(os.environ.get("KILLS") or 1)
JOBS = 10
SERVING_SECONDS = 10.0
LEDGER = "SELECT job_id::text, scheduled_for, state FROM jobs_trigger WHERE origin = 'schedule'"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(beats=2, workers=1, embedded=True) as stage:
        yield stage


@pytest.fixture(scope="module")
def periods(stage: Stage, receiver: Receiver) -> Periods:
    return create_jobs(stage, receiver)


def create_jobs(stage: Stage, receiver: Receiver, *, tenant: str = "acme") -> Periods:
    key = stage.create_tenant(tenant)
    periods = {}
    for number in range(JOBS):
        body = {
            "name": f"job-{number}",
            "job_type": "webhook",
            "schedule": {"type": "interval", "every_seconds": 1},
            "payload": {"url": receiver.url},
            "overlap_policy": "allow",
            "max_concurrent": 1000,
            "misfire_policy": "fire_all",
        }
        job = stage.call("POST", "/jobs", key=key, body=body)
        periods[job["id"]] = (datetime.fromisoformat(job["created_at"]), timedelta(seconds=1))
    return periods


def await_served(receiver: Receiver, *, since: float) -> float:
    """Wait for each job's delivery of a firing due after ``since``. Returns the seconds from then to the last one."""

    def served() -> bool:
        return (
            len({d.job_id for d in list(receiver.deliveries) if d.scheduled_for.timestamp() > since}) == JOBS
        )

    wait_until(served, timeout=60, what="a delivery of each job")
    return time.time() - since


def judge(stage: Stage, receiver: Receiver, periods: Periods) -> str:
    """Every firing that was due succeeded, is on record once and was delivered once. Returns the figures."""
    [(horizon,)] = stage.query("SELECT clock_timestamp()")
    expected = firings(periods, horizon)
    done = LEDGER + " AND state = 'succeeded'"
    wait_until(
        lambda: expected <= {(job_id, at) for job_id, at, _ in stage.query(done)},
        timeout=60,
        what="every firing to succeed",
    )
    recorded = [(job_id, at) for job_id, at, _ in stage.query(LEDGER) if at <= horizon and job_id in periods]
    assert sorted(recorded) == sorted(expected)
    delivered = Counter(delivery.firing for delivery in receiver.deliveries if delivery.job_id in periods)
    assert {firing: n for firing, n in delivered.items() if n > 1} == {}, "delivered more than once"
    assert expected <= set(delivered)
    return f"{len(expected)} firings, each delivered once"


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_a_killed_server_is_back_and_all_fires_once(
    stage: Stage, receiver: Receiver, periods: Periods, name: str
) -> None:
    await_served(receiver, since=time.time())
    others = stage.pids("beat") | stage.pids("worker") | stage.pids("web")
    took = []
    for _ in range(KILLS):
        [pid] = stage.pids(name).values()
        psutil.Process(pid).kill()
        took.append(await_served(receiver, since=time.time()))
        wait_until(lambda: stage.readiness() == "ok", timeout=20, what="readyz to be ok")
        wait_until(lambda: stage.pids(name)[name] != pid, timeout=5, what="its new pid")  # noqa: B023
    figures = judge(stage, receiver, periods)
    latest = max(delivery.late_seconds for delivery in receiver.deliveries)
    print(f"{name}: served after {', '.join(f'{s:.1f}' for s in took)} s; latest {latest:.1f} s; {figures}")
    assert f"{name} answers again" in stage.log_path.read_text()
    assert stage.pids("beat") | stage.pids("worker") | stage.pids("web") == others, "restarted by hand"
    assert max(took) <= SERVING_SECONDS

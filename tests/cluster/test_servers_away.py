"""Postgres restarts, Redis comes back empty: every process waits and resumes by itself (DESIGN §2.9).

One cluster goes through all of it, as each test leaves it running.
"""

from collections import Counter
from collections.abc import Sequence
from urllib.error import HTTPError

import pytest

from stage.waiting import wait_until
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
JOBS = 10


@pytest.fixture(scope="module")
def stage(servers, receiver):
    with Stage(beats=2, workers=1, **servers.urls()) as stage:
        key = stage.create_tenant()
        for number in range(JOBS):
            body = {
                "name": f"job-{number}",
                "job_type": "webhook",
                "schedule": {"type": "interval", "every_seconds": 2},
                "payload": {"url": receiver.url},
            }
            stage.call("POST", "/jobs", key=key, body=body)
        stage.key = key
        flows(receiver, within=30)
        yield stage


def flows(receiver: Receiver, *, within: float) -> None:
    """Twice as many deliveries as there are jobs arrive from now on."""
    enough = len(receiver.deliveries) + 2 * JOBS
    wait_until(lambda: len(receiver.deliveries) >= enough, timeout=within, what="deliveries to flow")


def outages(stage: Stage, before: int, event: str, *, of: Sequence[str]) -> Counter[str]:
    """How many lines told of an outage, by process, once all of these processes have told of its end too."""

    def told(what: str) -> Counter[str]:
        lines = stage.log_path.read_text()[before:].splitlines()
        return Counter(line.split()[0] for line in lines if what in line)

    wait_until(lambda: set(of) <= told(f"{event}: over").keys(), 60, what=f"the end of {event!r} from {of}")
    return told(event)


class TestServersAway:
    def test_keeps_its_connections_from_message_to_message(self, stage, receiver):
        backends = (
            "SELECT pid FROM pg_stat_activity "
            "WHERE application_name = 'carillon' AND datname = current_database()"
        )
        before = {row[0] for row in stage.query(backends)}
        flows(receiver, within=30)
        opened = {row[0] for row in stage.query(backends)} - before
        assert len(opened) <= 4, f"{len(opened)} new connections during {2 * JOBS} messages"

    def test_resumes_unaided_after_postgres_restarts(self, stage, servers, receiver):
        _, postgres, _ = servers
        pids, before = stage.pids(""), len(stage.log_path.read_text())
        postgres.stop()
        wait_until(lambda: stage.readiness() == "unavailable", timeout=20, what="readyz to say so")
        for _ in range(20):
            with pytest.raises(HTTPError):
                stage.call("GET", "/jobs", key=stage.key)
        postgres.start()
        flows(receiver, within=60)
        stage.call("GET", "/jobs", key=stage.key)
        told = outages(stage, before, "database away", of=("web", "beat1", "beat2", "worker1"))
        assert told["web"] < 20, "a line a call"
        assert "Service Unavailable" not in stage.log_path.read_text()[before:]
        assert stage.pids("") == pids, "a process had to be restarted"

    def test_resumes_unaided_after_redis_comes_back_empty(self, stage, servers, receiver):
        data_dir, _, redis = servers
        pids, before = stage.pids(""), len(stage.log_path.read_text())
        redis.stop()
        for leftover in (data_dir / "redis").glob("*.aof"):
            leftover.unlink()
        wait_until(lambda: stage.readiness() == "degraded", timeout=20, what="readyz to say so")
        assert stage.call("GET", "/jobs", key=stage.key)["results"], "the API works without the broker"
        redis.start()
        flows(receiver, within=60)
        assert stage.readiness() == "ok"
        outages(stage, before, "broker away", of=("web", "worker1"))
        assert "Cannot connect to" not in stage.log_path.read_text()[before:], (
            "Celery's own line at every try"
        )
        assert stage.pids("") == pids, "a process had to be restarted"

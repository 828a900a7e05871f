"""With CARILLON_BROKERLESS_FALLBACK firings go on while Redis is dead, and nothing is doubled when it is back."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Servers
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage, wait_until

pytestmark = pytest.mark.cluster
JOBS = 10
EVERY_SECONDS = 1


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def stage(servers: Servers, receiver: Receiver) -> Iterator[Stage]:
    with Stage(beats=2, workers=2, CARILLON_BROKERLESS_FALLBACK="1", **servers.urls()) as stage:
        key = json.loads(stage.manage("create_tenant", "acme", "--api-key", "test", "--json"))["api_key"]
        for number in range(JOBS):
            body = {
                "name": f"job-{number}",
                "job_type": "webhook",
                "schedule": {"type": "interval", "every_seconds": EVERY_SECONDS},
                "payload": {"url": receiver.url},
                "misfire_policy": "fire_all",
                "overlap_policy": "allow",
                "max_concurrent": 1000,
            }
            stage.call("POST", "/jobs", key=key, body=body)
        stage.key = key
        flows(receiver, within=30)
        yield stage


def flows(receiver: Receiver, *, within: float) -> None:
    """Three times as many deliveries as there are jobs arrive from now on."""
    enough = len(receiver.deliveries) + 3 * JOBS
    wait_until(lambda: len(receiver.deliveries) >= enough, timeout=within, what="deliveries to flow")


class TestFirings:
    def test_go_on_through_postgres_until_redis_is_back(
        self, stage: Stage, servers: Servers, receiver: Receiver
    ) -> None:
        pids = stage.pids("")
        killed_at = clock(stage)
        servers.redis.running().kill()
        flows(receiver, within=30)
        assert stage.readiness() == "degraded"
        assert through_postgres(stage, since=killed_at) > 0
        servers.redis.stop()
        servers.redis.start()

        def by_broker() -> bool:
            return bool(
                stage.query(
                    "SELECT 1 FROM jobs_attempt WHERE celery_task_id <> '' AND state = 'succeeded' "
                    f"AND started_at > '{killed_at}' LIMIT 1"
                )
            )

        wait_until(by_broker, timeout=60, what="workers to take from the broker again")
        horizon = clock(stage)
        flows(receiver, within=30)
        wait_until(
            lambda: (
                not stage.query(
                    f"SELECT 1 FROM jobs_trigger WHERE due_at < '{horizon}' AND finished_at IS NULL LIMIT 1"
                )
            ),
            timeout=60,
            what="everything due to end",
        )
        doubled = [f for f, count in Counter(d.firing for d in receiver.started).items() if count > 1]
        assert not doubled
        ends = stage.query(
            f"SELECT DISTINCT state, attempt_count FROM jobs_trigger WHERE due_at < '{horizon}'"
        )
        assert ends == [("succeeded", 1)]
        back_at = clock(stage)
        flows(receiver, within=30)
        assert through_postgres(stage, since=back_at) == 0
        [(late,)] = stage.query(
            "SELECT max(extract(epoch FROM started_at - scheduled_for))::float FROM jobs_trigger "
            f"WHERE due_at < '{horizon}'"
        )
        print(f"{len(receiver.deliveries)} deliveries, none doubled, at most {late:.1f} s late")
        assert late <= 15
        assert stage.pids("") == pids, "a process had to be restarted"
        print(stage.manage("audit_firings"))


def clock(stage: Stage) -> str:
    [(now,)] = stage.query("SELECT clock_timestamp()")
    return now.isoformat()


def through_postgres(stage: Stage, *, since: str) -> int:
    [(count,)] = stage.query(
        f"SELECT count(*) FROM jobs_attempt WHERE celery_task_id = '' AND started_at > '{since}'"
    )
    return count

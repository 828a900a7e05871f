"""RabbitMQ as the broker and no Redis at all, classic and quorum queues: as in any other installation.

The node is ours, from Debian's package. ``KILLS`` says how often it is killed. The other cluster tests run over it,
too: ``make rabbitmq``.
"""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, cast

import amqp
import pytest

from stage.rabbitmq import VHOSTS, RabbitMQ, lacks
from stage.waiting import wait_until
from tests.cluster.ledger import Periods
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage
from tests.cluster.test_killed_servers import await_served, create_jobs, judge
from tests.cluster.test_wake_ups import SLEEPY, SOON_SECONDS, create, lags

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(lacks()), reason=f"no RabbitMQ on this machine: {lacks()} is missing"),
]
KILLS = int(os.environ.get("KILLS") or 1)
Queues = Literal["classic", "quorum"]
PER_SECOND, BURST = 4, 2


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    server = RabbitMQ(data_dir=tmp_path_factory.mktemp("rabbitmq"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module", params=["classic", "quorum"])
def queues(request: pytest.FixtureRequest) -> Queues:
    return cast(Queues, request.param)


@pytest.fixture(scope="module")
def stage(rabbitmq: RabbitMQ, queues: Queues) -> Iterator[Any]:
    # The short deadline finds triggers whose message was lost at once; a beat asleep must be woken.
    with Stage(
        beats=2,
        workers=1,
        rabbitmq_url=rabbitmq.url(queues),
        CARILLON_DISPATCH_DEADLINE_SECONDS="5",
        CARILLON_RESERVED_SLOTS="1",
        **SLEEPY,
    ) as stage:
        stage.key = stage.create_tenant()
        yield stage


class TestWithoutRedis:
    def test_queues_are_of_the_type_that_the_virtual_host_has(
        self, stage: Any, rabbitmq: RabbitMQ, queues: Queues
    ) -> None:
        other = "quorum" if queues == "classic" else "classic"
        with (
            amqp.Connection(f"127.0.0.1:{rabbitmq.port}", virtual_host=VHOSTS[queues]) as asking,
            pytest.raises(amqp.exceptions.PreconditionFailed, match=f"current is '?\"?{queues}|x-queue-type"),
        ):
            asking.channel().queue_declare(
                "jobs.webhook", durable=True, auto_delete=False, arguments={"x-queue-type": other}
            )

    def test_a_beat_asleep_is_woken(self, stage: Any) -> None:
        for _ in range(3):
            job = create(stage, job_type="noop", schedule={"type": "immediate"})
            assert max(lags(stage, job, attempts=1)) < SOON_SECONDS

    def test_a_tenants_rate_holds(self, stage: Any) -> None:
        """Sixteen at once, four a second."""
        rates = ("--rate-per-second", str(PER_SECOND), "--rate-burst", str(BURST))
        key = stage.create_tenant("paced", *rates)
        for _ in range(16):
            body = {"job_type": "noop", "payload": {}, "schedule": {"type": "immediate"}}
            stage.call("POST", "/jobs", key=key, body=body)
        starts = (
            "SELECT a.started_at FROM jobs_attempt a JOIN tenants_tenant t ON t.id = a.tenant_id "
            "WHERE t.slug = 'paced' ORDER BY 1"
        )
        wait_until(lambda: len(stage.query(starts)) >= 16, timeout=60, what="all to start")
        first, *_, last = (at for (at,) in stage.query(starts))
        # A token is taken before the transaction that spends it, which takes a moment more or less.
        assert (last - first) / timedelta(seconds=1) >= (16 - BURST) / PER_SECOND - 0.5

    def test_readyz_and_the_log_tell_what_is_used(self, stage: Any) -> None:
        report = stage.report()
        assert report["status"] == report["rates"] == "ok"
        assert report["carriers"] == {"messages": "rabbitmq", "rates": "postgres", "wake_ups": "postgres"}
        assert any("CARILLON_RESERVED_SLOTS" in line for line in report["differences"])
        said = stage.log_path.read_text()
        assert "broker is RabbitMQ" in said
        assert "CARILLON_RESERVED_SLOTS" in said
        assert "redis" not in stage.pids("")
        for away in ("rate limits away", "wake-ups cannot", "rates not shared"):
            assert away not in said

    def test_a_killed_broker_costs_no_firing_and_doubles_none(
        self, stage: Any, rabbitmq: RabbitMQ, queues: Queues, receiver: Receiver
    ) -> None:
        processes = stage.pids("")
        # One tenant of this module's is there already; these jobs are another's.
        periods: Periods = create_jobs(stage, receiver, tenant=f"killed-{queues}")
        await_served(receiver, since=time.time())
        took = []
        for _ in range(KILLS):
            rabbitmq.kill()
            wait_until(lambda: stage.readiness() == "degraded", timeout=20, what="readyz to say so")
            rabbitmq.start()
            took.append(await_served(receiver, since=time.time()))
        wait_until(lambda: stage.readiness() == "ok", timeout=20, what="readyz to be ok")
        figures = judge(stage, receiver, periods)
        print(f"{queues}: served {', '.join(f'{s:.1f}' for s in took)} s after it was back; {figures}")
        assert stage.pids("") == processes, "restarted by hand"
        refusals = stage.log_path.read_text().count("does not support global qos")
        assert refusals <= 2, "a connection refused again and again"

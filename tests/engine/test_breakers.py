"""Circuit breakers with real webhooks to a receiver that fails, a beat stepped by hand and a worker without Celery."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from jobs.engine import worker
from jobs.engine.worker.process import THIS
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.egress import EgressRules
from jobs.models import Breaker, Trigger
from jobs.store import execution
from jobs.store.dispatch import breakers
from stage.waiting import wait_until
from tenants.models import Tenant
from tests.engine.conftest import Beat, Broker, Perform
from tests.factories import LEASE, SECOND, attempts, make_job, make_tenant, make_triggers, now, row, states
from tests.handlers.conftest import LOOPBACK, Receiver

pytestmark = pytest.mark.django_db(transaction=True)
FAILURES = 3
RETRY = {"max_attempts": 5, "backoff": "fixed", "initial_delay_seconds": 3600, "jitter": "none"}


class World:
    """Two tenants that call one host, which is up or down. ``turn``: a beat's turn; all triggers that it queued run."""

    def __init__(self, receiver: Receiver, beat: Beat, broker: Broker) -> None:
        self.receiver, self.beat, self.broker = receiver, beat, broker
        self.up = False
        self.tenant, self.other = (make_tenant(circuit_breaker=on) for on in (True, False))
        self.target = f"127.0.0.1:{receiver.port}"
        receiver.answers["/hook"] = self._answer

    async def _answer(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.up else 503)

    def webhooks(self, number: int, tenant: Tenant | None = None, **payload: Any) -> list[Trigger]:
        job = make_job(
            tenant or self.tenant,
            job_type="webhook",
            payload={"url": self.receiver.url(), **payload},
            target=self.target,
            retry_policy=RETRY,
        )
        return make_triggers(job, number)

    def turn(self) -> int:
        """Returns how many triggers were queued."""
        self.beat.step()
        messages, self.broker.messages = self.broker.messages, []
        for message in messages:
            worker.perform(
                job_type=message.job_type, tokens=message.tokens, worker="w1", celery_task_id="celery-1"
            )
        return sum(len(message.tokens) for message in messages)

    def let_probe(self) -> None:
        """Let the time until the next probe end."""
        Breaker.objects.exclude(state="closed").update(probe_at=now() - SECOND)

    def breaker(self) -> Breaker:
        return Breaker.objects.get(tenant=self.tenant, target=self.target)

    @property
    def requests(self) -> int:
        return len(self.receiver.requests)

    def open(self) -> list[Trigger]:
        failed = self.webhooks(FAILURES)
        assert self.turn() == FAILURES
        assert self.breaker().state == "open"
        return failed


@pytest.fixture
def world(
    perform: Perform, monkeypatch: pytest.MonkeyPatch, settings: Any, beat: Beat, broker: Broker
) -> Iterator[World]:
    settings.CARILLON = settings.CARILLON.model_copy(
        update={"breaker_failures": FAILURES, "breaker_wait_seconds": 3600.0}
    )
    runner = AsyncRunner(rules=EgressRules(allow_networks=LOOPBACK))
    monkeypatch.setattr(THIS, "runner", runner)
    receiver = Receiver()
    yield World(receiver, beat, broker)
    receiver.close()
    runner.close()
    breakers._kept.clear()


class TestABreaker:
    def test_opens_lets_nothing_through_probes_once_and_closes(self, world: World) -> None:
        failed = world.open()
        waiting = world.webhooks(7)
        for _ in range(3):
            assert world.turn() == 0
        assert world.requests == FAILURES
        assert {(row(each)["state"], row(each)["attempt_count"]) for each in waiting} == {("pending", 0)}

        world.let_probe()
        assert world.turn() == 1  # the probe fails, and the time until the next one is longer
        assert (world.requests, world.breaker().openings) == (FAILURES + 1, 2)
        assert world.turn() == 0

        world.up = True
        world.let_probe()
        assert world.turn() == 1
        assert world.breaker().state == "closed"
        wait_until(
            lambda: world.turn() is not None and states(waiting).count("succeeded") == 6, what="all run"
        )
        assert world.requests == FAILURES + 1 + 6
        # One of the waiting triggers was the failed probe; every other one ran once.
        assert sorted(len(attempts(each)) for each in waiting) == [1] * 7
        assert {row(each)["attempt_count"] for each in failed} == {1}

    def test_hands_back_what_was_queued_when_it_opened(self, world: World) -> None:
        queued = world.webhooks(4)
        world.beat.step()
        later, world.broker.messages = world.broker.messages, []
        world.open()
        for message in later:
            worker.perform(job_type="webhook", tokens=message.tokens, worker="w2", celery_task_id="celery-2")
        assert world.requests == FAILURES
        assert {(row(each)["state"], row(each)["attempt_count"]) for each in queued} == {("pending", 0)}

    def test_is_of_one_tenant_alone(self, world: World) -> None:
        world.open()
        before = world.requests
        theirs = world.webhooks(6, world.other)
        assert world.turn() == 6
        assert world.requests == before + 6
        assert {row(each)["attempt_count"] for each in theirs} == {1}
        assert not Breaker.objects.exclude(tenant=world.tenant).exists()
        Tenant.objects.update(circuit_breaker=True)
        world.webhooks(2, world.other)
        assert world.turn() == 2  # the breaker of ``other`` has counted two failures

    def test_leaves_other_hosts_of_the_tenant_alone(self, world: World) -> None:
        world.open()
        job = make_job(
            world.tenant,
            job_type="webhook",
            payload={"url": world.receiver.url("/other", host="localhost")},
            target=f"localhost:{world.receiver.port}",
        )
        make_triggers(job, 2)
        assert world.turn() == 2

    def test_lets_another_probe_when_the_worker_of_one_died(self, world: World) -> None:
        world.open()
        waiting = world.webhooks(3)
        world.let_probe()
        world.beat.step()
        [message] = world.broker.messages
        world.broker.messages = []
        [claimed] = execution.claim(
            tokens=message.tokens, job_types=["webhook"], worker="w-dead", celery_task_id="c", lease=LEASE
        )
        assert world.turn() == 0
        assert world.breaker().probe_id == claimed.id
        Trigger.objects.filter(id=claimed.id).update(lease_expires_at=now() - timedelta(minutes=5))
        world.up = True
        wait_until(lambda: world.turn() >= 1, what="another one probes")
        wait_until(lambda: world.turn() is not None and set(states(waiting)) == {"succeeded"}, what="all run")
        assert world.breaker().state == "closed"
        assert world.requests == FAILURES + 3

    def test_that_is_switched_off_lets_everything_go(self, world: World) -> None:
        world.open()
        waiting = world.webhooks(5)
        assert world.turn() == 0
        Tenant.objects.update(circuit_breaker=False)
        world.up = True
        wait_until(lambda: world.turn() is not None and set(states(waiting)) == {"succeeded"}, what="all run")

    def test_counts_a_refusal_as_an_answer(self, world: World) -> None:
        async def refuse(_: web.Request) -> web.Response:
            return web.Response(status=404)

        world.receiver.answers["/hook"] = refuse
        world.webhooks(FAILURES * 2)
        assert world.turn() == FAILURES * 2
        assert not Breaker.objects.exists()

    def test_opens_for_a_host_that_nobody_answers_at(self, world: World) -> None:
        with socket.socket() as unheard:  # bound, but it never listens
            unheard.bind(("127.0.0.1", 0))
            port = unheard.getsockname()[1]
            url, target = f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}"
            job = make_job(
                world.tenant, job_type="webhook", payload={"url": url}, target=target, retry_policy=RETRY
            )
            make_triggers(job, FAILURES)
            assert world.turn() == FAILURES
        assert Breaker.objects.get(target=target).state == "open"

"""The example receiver against requests as Carillon really sends them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from examples.webhook_receiver import Server
from jobs.handlers import registry
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.egress import EgressRules
from tests.handlers import conftest

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 8
make_context = conftest.make_context


class Working(Server):
    def __init__(self) -> None:
        super().__init__(SECRET)
        self.worked_on: list[object] = []

    def work(self, document: object) -> None:
        self.worked_on.append(document)


@pytest.fixture
def receiver() -> Iterator[Working]:
    server = Working()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def send(
    job_types: None, receiver: Working, make_context: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Send a webhook as a worker does. Returns the status and the text of the answer."""
    runner = AsyncRunner(rules=EgressRules(allow_networks=conftest.LOOPBACK))

    def send(body: object = None, **context: Any) -> tuple[int | None, str]:
        ended: list[Any] = []
        payload = {"url": f"http://127.0.0.1:{receiver.server_port}/hook", "body": body}
        call = (registry.get("webhook"), make_context(**({"signing_secret": SECRET} | context)), payload)
        runner.run([call], lambda _, outcome: ended.append(outcome))
        return ended[0].http_status, ended[0].response_excerpt

    yield send
    runner.close()


class TestTheReceiver:
    def test_does_what_is_signed_with_its_secret(self, receiver: Working, send: Callable[..., Any]) -> None:
        assert send({"kind": "ü", "n": [1, None]}) == (200, "done")
        assert receiver.worked_on == [{"kind": "ü", "n": [1, None]}]

    @pytest.mark.parametrize("secrets", [f"{SECRET} {OTHER}", f"{OTHER} {SECRET}"])
    def test_knows_its_own_while_secrets_rotate(
        self, receiver: Working, send: Callable[..., Any], secrets: str
    ) -> None:
        assert send(1, signing_secret=secrets) == (200, "done")

    @pytest.mark.parametrize("secret", [OTHER, ""])
    def test_refuses_what_is_signed_with_another_or_not_at_all(
        self, receiver: Working, send: Callable[..., Any], secret: str
    ) -> None:
        assert send(1, signing_secret=secret)[0] == 401
        assert receiver.worked_on == []

    def test_does_a_firing_once_however_often_it_is_sent(
        self, receiver: Working, send: Callable[..., Any]
    ) -> None:
        assert [send(1, fence=fence, attempt_number=fence)[1] for fence in (1, 2, 3)] == [
            "done",
            "done before",
            "done before",
        ]
        assert receiver.worked_on == [1]

    def test_refuses_an_attempt_that_another_has_overtaken(
        self, receiver: Working, send: Callable[..., Any]
    ) -> None:
        receiver.ledger.take(key="slow", fence=5)
        assert send(1, idempotency_key="slow", fence=4) == (422, "a later attempt is at it")
        assert send(1, idempotency_key="slow", fence=6) == (200, "done")
        assert receiver.worked_on == [1]

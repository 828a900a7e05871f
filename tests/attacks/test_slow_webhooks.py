"""Slow webhooks of one tenant do not delay another's: 400 of them stopped a worker process until they timed out."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest

from jobs.conf import engine_settings
from jobs.engine import worker
from jobs.engine.worker import batch
from jobs.engine.worker.process import THIS
from jobs.handlers import AsyncRunner
from jobs.handlers.shares.places import MAX_AT_WORK
from jobs.models import Trigger
from jobs.store import lifecycle
from stage.waiting import wait_until
from tenants.clock import database_now
from tenants.models import Tenant
from tests.engine.conftest import Perform, queued
from tests.factories import attempts, make_job, make_tenant, make_triggers, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)
#: No test waits for so long, nor for half of it.
TIMEOUT = timedelta(seconds=30)
SLOW, A_MESSAGE = 600, 100
#: The calls of a tenant alone that are at work at once.
AT_WORK = MAX_AT_WORK // 3


class Target:
    """A server in a thread: below ``/slow`` it keeps its callers waiting, all others are answered at once."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.kept: list[socket.socket] = []
        self.answering = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        if b" /slow" in caller.recv(4096):
            self.kept.append(caller)
            self.answering.wait(60)
        caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        caller.close()

    def close(self) -> None:
        self.answering.set()
        self._server.shutdown(socket.SHUT_RDWR)  # ends the wait of its thread, which closing alone would not
        self._server.close()


@pytest.fixture
def target(perform: Perform, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    networks = (ip_network("127.0.0.0/8"),)
    update = {"webhook_allow_networks": networks, "webhook_connect_timeout_seconds": 60}
    settings.CARILLON = engine_settings().model_copy(update=update)
    monkeypatch.setattr(batch, "LEAVE_AFTER_SECONDS", 0.05)
    target = Target()
    yield target
    target.close()
    worker.wait_for_the_rest()


Run = Callable[..., None]


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch, perform: Perform) -> Iterator[Run]:
    """Make this process run asynchronous handlers by other bounds than its own."""
    opened: list[AsyncRunner] = []

    def use(**bounds: Any) -> None:
        opened.append(AsyncRunner(**bounds))
        monkeypatch.setattr(THIS, "runner", opened[-1])

    yield use
    for runner in opened:
        runner.close()


def webhooks(target: Target, number: int, tenant: Tenant | None = None, **columns: Any) -> list[Trigger]:
    """``number`` queued triggers of slow webhooks of one tenant."""
    payload = {"url": f"{target.url}/slow"}
    plain = {"job_type": "webhook", "payload": payload, "timeout": TIMEOUT}
    return make_triggers(make_job(tenant or make_tenant(), **plain | columns), number, "queued")


def flood(perform: Perform, triggers: list[Trigger]) -> None:
    """Perform them as one process does: message after message."""
    for first in range(0, len(triggers), A_MESSAGE):
        perform(*triggers[first : first + A_MESSAGE])


def wait_for_success(*triggers: Trigger) -> None:
    """On full processors, a call takes longer than a process stays with its message."""
    wait_until(lambda: {state_of(one)[0] for one in triggers} == {"succeeded"}, what="their success")


class TestSixHundredSlowWebhooks:
    def test_hold_up_no_other_tenant(self, perform: Perform, target: Target) -> None:
        slow = webhooks(target, SLOW)
        theirs, plain = queued("webhook", payload={"url": target.url}), queued("noop")
        since = time.monotonic()
        flood(perform, slow[:AT_WORK])
        # Calls that have not started yet count as waiting, and a process claims less while many wait.
        wait_until(lambda: len(target.kept) == AT_WORK, what="the calls of a third of all places")
        flood(perform, slow[AT_WORK:])
        perform(theirs)
        wait_for_success(theirs)
        webhook_after = time.monotonic() - since
        assert perform(plain) == {"succeeded": 1}
        noop_after = time.monotonic() - since
        print(f"after {SLOW} slow webhooks: a webhook {webhook_after:.2f} s, a noop {noop_after:.2f} s")
        assert noop_after < TIMEOUT.total_seconds() / 2
        assert len(target.kept) == AT_WORK
        target.answering.set()
        worker.wait_for_the_rest()
        # Triggers that the process had no room for went back, without an attempt.
        ends = Counter((state_of(one)[0], len(attempts(one))) for one in slow)
        assert ends == {("succeeded", 1): 500, ("pending", 0): 100}

    def test_would_if_places_were_not_shared(self, perform: Perform, target: Target, run_with: Run) -> None:
        """The control."""
        run_with(shared=False, max_concurrent=60)
        flood(perform, webhooks(target, 60))
        assert perform(queued("webhook", payload={"url": target.url})) == {"lingering": 1}
        target.answering.set()


class TestAMessageOfManyTenants:
    def test_keeps_waiting_only_those_that_are_slow(
        self, perform: Perform, target: Target, run_with: Run
    ) -> None:
        run_with(max_concurrent=30)
        theirs = [queued("webhook", payload={"url": target.url}) for _ in range(5)]
        slow = webhooks(target, 60)
        perform(*slow[:30])
        wait_until(lambda: len(target.kept) == 10, what="the calls of a third of all places")
        since = time.monotonic()
        perform(*slow[30:], *theirs)
        wait_for_success(*theirs)
        assert time.monotonic() - since < TIMEOUT.total_seconds() / 2
        assert len(target.kept) == 10
        target.answering.set()


class TestACrowdedTenant:
    """Its triggers wait in the process for a place; if too many do, they wait in the database: no attempt is made."""

    def test_is_claimed_no_more_of(self, perform: Perform, target: Target, run_with: Run) -> None:
        run_with(max_concurrent=4, max_waiting=8)
        hostile = make_tenant()
        first, further = webhooks(target, 8, hostile), webhooks(target, 5, hostile)
        other = queued("webhook", payload={"url": target.url})
        assert perform(*first) == {"lingering": 8}
        perform(*further, other)
        for trigger in further:
            now = row(trigger)
            assert (now["state"], now["held"], now["attempt_count"]) == ("pending", True, 0)
            assert timedelta() < now["parked_until"] - database_now() <= timedelta(seconds=5)
            assert not attempts(trigger)
        wait_for_success(other)
        assert {state_of(one)[0] for one in first} == {"running"}  # it did not wait for their timeout
        target.answering.set()
        wait_for_success(*first)
        [another] = webhooks(target, 1, hostile)
        perform(another)
        wait_for_success(another)

    def test_waits_for_a_place_with_nothing_that_may_start_once_only(
        self, perform: Perform, target: Target, run_with: Run
    ) -> None:
        run_with(max_concurrent=4, max_waiting=8)
        hostile = make_tenant()
        assert perform(*webhooks(target, 3, hostile)) == {"lingering": 3}
        once, again = webhooks(target, 1, hostile, delivery="at_most_once"), webhooks(target, 1, hostile)
        assert perform(*once, *again) == {"lingering": 1}
        assert (row(once[0])["state"], attempts(once[0])) == ("pending", [])
        target.answering.set()

    def test_hears_of_a_cancel_while_it_waits(
        self, perform: Perform, target: Target, run_with: Run, settings: Any
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"worker_lease_seconds": 0.3})
        run_with(max_concurrent=2)
        slow = webhooks(target, 2)
        perform(*slow)
        lifecycle.cancel(trigger_id=slow[1].id, tenant_id=slow[1].tenant_id)
        wait_until(lambda: state_of(slow[1]) == ("cancelled", "requested"))
        assert (len(target.kept), state_of(slow[0])[0]) == (1, "running")
        target.answering.set()

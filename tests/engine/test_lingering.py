"""Slow asynchronous handlers go on by themselves: their message is done, and its process is free for the next."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from jobs.engine import worker
from jobs.engine.worker import batch
from jobs.handlers import Context
from jobs.models import Trigger
from jobs.store import execution, lifecycle
from stage.waiting import wait_until
from tests.engine.conftest import Perform, queued
from tests.factories import attempts, row, state_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
Register = Callable[..., str]


class Gate:
    """Handlers of ``name`` wait at the gate unless their payload says ``quick``."""

    def __init__(self, register: Register) -> None:
        self._open = threading.Event()
        self.name = register(self._pass, batch_size=10)

    async def _pass(self, ctx: Context, payload: dict[str, Any]) -> str:
        while not (payload.get("quick") or self._open.is_set()):
            await asyncio.sleep(0.01)
        return "through"

    def slow(self, **columns: Any) -> Trigger:
        return queued(self.name, **columns)

    def quick(self) -> Trigger:
        return queued(self.name, payload={"quick": True})

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def short_leases(perform: Perform, settings: Any) -> None:
    """Set before the first message: the renewer then learns how long leases are, and when to renew them."""
    settings.CARILLON = settings.CARILLON.model_copy(update={"worker_lease_seconds": 0.3})


@pytest.fixture
def rare_writes(perform: Perform, settings: Any) -> None:
    """Outcomes wait for longer than a test does. Set before the first message, too."""
    settings.CARILLON = settings.CARILLON.model_copy(update={"finish_flush_ms": 8_000})


@pytest.fixture
def gate(perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setattr(batch, "LEAVE_AFTER_SECONDS", 0.5)
    gate = Gate(handler)
    perform(gate.quick())  # the first one starts the event loop
    yield gate
    gate.open()
    worker.wait_for_the_rest()


class TestMessage:
    def test_is_done_with_while_its_slow_handlers_go_on(self, perform: Perform, gate: Gate) -> None:
        slow, quick = gate.slow(), gate.quick()
        assert perform(slow, quick) == {"succeeded": 1, "lingering": 1}
        assert (state_of(slow)[0], state_of(quick)[0]) == ("running", "succeeded")

    def test_of_a_suspect_is_left_later(
        self, perform: Perform, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batch, "LEAVE_AFTER_SECONDS", 0.0)
        assert perform(gate.slow()) == {"lingering": 1}
        threading.Timer(0.3, gate.open).start()
        assert perform(gate.slow(suspect=True)) == {"succeeded": 1}

    def test_leaves_its_process_free_for_the_next(self, perform: Perform, gate: Gate) -> None:
        perform(gate.slow())
        assert perform(gate.quick()) == {"succeeded": 1}


class TestTheRest:
    def test_is_finished_when_it_ends(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow()
        perform(slow)
        gate.open()
        wait_until(lambda: state_of(slow)[0] == "succeeded")
        assert (row(slow)["result"], attempts(slow)[0].state) == ("through", "succeeded")

    @pytest.mark.usefixtures("rare_writes")
    def test_is_written_at_once_however_rarely_outcomes_are(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow()
        perform(slow)
        gate.open()
        wait_until(lambda: state_of(slow)[0] == "succeeded")

    @pytest.mark.usefixtures("short_leases")
    def test_keeps_its_leases(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow()
        perform(slow)
        first = row(slow)["lease_expires_at"]
        wait_until(lambda: row(slow)["lease_expires_at"] > first + timedelta(seconds=0.3))

    @pytest.mark.usefixtures("short_leases")
    def test_hears_of_a_cancel(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow()
        perform(slow)
        lifecycle.cancel(trigger_id=slow.id, tenant_id=slow.tenant_id)
        wait_until(lambda: state_of(slow) == ("cancelled", "requested"))

    def test_times_out_in_its_time(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow(timeout=timedelta(seconds=0.2))
        perform(slow)
        wait_until(lambda: bool(attempts(slow)) and attempts(slow)[0].state == "timed_out")
        assert state_of(slow)[0] == "retrying"

    def test_is_waited_for_before_the_process_ends(self, perform: Perform, gate: Gate) -> None:
        slow = gate.slow()
        perform(slow)
        threading.Timer(0.3, gate.open).start()
        worker.wait_for_the_rest()
        assert state_of(slow)[0] == "succeeded"

    def test_is_nothing_where_nothing_lingers(self, perform: Perform, gate: Gate) -> None:
        worker.wait_for_the_rest()
        perform(gate.quick())
        worker.wait_for_the_rest()

    @pytest.mark.usefixtures("short_leases")
    def test_is_left_to_reap_when_the_database_is_away_for_longer_than_its_lease(
        self, perform: Perform, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: Any, **__: Any) -> Any:
            raise OperationalError("away")

        slow = gate.slow()
        perform(slow)
        monkeypatch.setattr(execution, "finish", away)
        gate.open()
        worker.wait_for_the_rest()
        assert state_of(slow)[0] == "running"

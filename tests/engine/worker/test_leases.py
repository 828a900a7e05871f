"""Leases while handlers run: they are renewed, and a cancel or a lease that is lost ends the handler."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from jobs.engine.worker.process import THIS
from jobs.handlers import Context
from jobs.models import Trigger
from jobs.store import execution, lifecycle
from stage.waiting import wait_until
from tests.engine.conftest import Perform, queued
from tests.engine.worker.conftest import Register, charged
from tests.factories import attempts, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)


class TestLeaseRenewer:
    @pytest.fixture(autouse=True)
    def _short_lease(self, perform: Perform, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"worker_lease_seconds": 0.3})

    def test_renews_while_a_handler_runs_longer_than_its_lease(
        self, perform: Perform, handler: Register
    ) -> None:
        def outlast(ctx: Context, payload: dict[str, Any]) -> None:
            first = row(ctx.trigger_id)["lease_expires_at"]
            wait_until(lambda: row(ctx.trigger_id)["lease_expires_at"] > first + timedelta(seconds=0.3))

        trigger = queued(handler(outlast))
        assert perform(trigger) == {"succeeded": 1}

    def test_carries_a_cancel_to_the_handler(self, perform: Perform, handler: Register) -> None:
        def stoppable(ctx: Context, payload: dict[str, Any]) -> None:
            lifecycle.cancel(trigger_id=ctx.trigger_id, tenant_id=trigger.tenant_id)
            wait_until(ctx.cancelled)
            ctx.raise_if_cancelled()

        trigger = queued(handler(stoppable))
        assert perform(trigger) == {"cancelled": 1}
        assert (state_of(trigger), attempts(trigger)[0].state) == (("cancelled", "requested"), "cancelled")

    def test_interrupts_a_handler_that_does_not_heed_a_cancel_and_spares_its_batch(
        self, perform: Perform, handler: Register, settings: Any
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"stop_grace_seconds": 0.1})

        def heedless(ctx: Context, payload: dict[str, Any]) -> None:
            if ctx.trigger_id == bad.id:
                lifecycle.cancel(trigger_id=ctx.trigger_id, tenant_id=bad.tenant_id)
                threading.Event().wait()

        name = handler(heedless, batch_size=3)
        triggers = [queued(name) for _ in range(3)]
        bad = triggers[1]
        assert perform(*triggers) == {"succeeded": 2, "cancelled": 1}
        assert (state_of(bad), attempts(bad)[0].state) == (("cancelled", "requested"), "cancelled")
        assert "ignored the cancel" in attempts(bad)[0].error_message
        assert charged(triggers[0]) == charged(triggers[2]) == (0, 0, False)

    def test_interrupts_a_handler_whose_lease_was_lost(
        self, perform: Perform, handler: Register, settings: Any
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"stop_grace_seconds": 0.1})

        def heedless(ctx: Context, payload: dict[str, Any]) -> None:
            Trigger.objects.filter(id=ctx.trigger_id).update(state="retrying", fence=2)
            threading.Event().wait()

        trigger = queued(handler(heedless))
        assert perform(trigger) == {"stale": 1}
        assert state_of(trigger) == ("retrying", "")

    def test_keeps_the_late_outcome_of_a_lost_lease_as_stale(
        self, perform: Perform, handler: Register
    ) -> None:
        def outlived(ctx: Context, payload: dict[str, Any]) -> str:
            Trigger.objects.filter(id=ctx.trigger_id).update(state="retrying", fence=2)
            wait_until(ctx.cancelled)
            return "late"

        trigger = queued(handler(outlived))
        assert perform(trigger) == {"stale": 1}
        assert (state_of(trigger), row(trigger)["result"]) == (("retrying", ""), None)
        assert attempts(trigger)[0].state == "stale"

    def test_does_not_start_what_it_lost_while_waiting_its_turn(
        self, perform: Perform, handler: Register
    ) -> None:
        called = []

        def first_loses_second(ctx: Context, payload: dict[str, Any]) -> None:
            called.append(ctx.trigger_id)
            Trigger.objects.filter(id=second.id).update(state="retrying", fence=2)
            held = THIS.renewer._batches[0].hold.held[second.id]
            wait_until(lambda: held.lost)

        name = handler(first_loses_second, batch_size=2)
        first, second = queued(name), queued(name)
        assert perform(first, second) == {"succeeded": 1, "stale": 1}
        assert called == [first.id]

    def test_outlives_a_write_that_fails(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = execution.renew
        refused: list[int] = []

        def refuse_once(**arguments: Any) -> Any:
            if not refused:
                refused.append(1)
                raise ValueError("refused")
            return real(**arguments)

        monkeypatch.setattr(execution, "renew", refuse_once)

        def outlast(ctx: Context, payload: dict[str, Any]) -> None:
            first = row(ctx.trigger_id)["lease_expires_at"]
            wait_until(lambda: row(ctx.trigger_id)["lease_expires_at"] > first)

        assert perform(queued(handler(outlast))) == {"succeeded": 1}
        assert refused == [1]

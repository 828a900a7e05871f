"""The questions and reports of a handler while it runs."""

from typing import Any

import pytest

from jobs.handlers import Context
from jobs.models import Trigger
from tests.engine.conftest import Perform, queued
from tests.engine.worker.conftest import Register
from tests.factories import attempts, row

pytestmark = pytest.mark.django_db(transaction=True)


class TestContextOfAHandler:
    def test_names_the_attempt_it_serves(self, perform: Perform, handler: Register) -> None:
        seen: list[Context] = []
        trigger = queued(handler(lambda ctx, payload: seen.append(ctx)), fence=3, attempt_count=1)
        perform(trigger)
        [ctx] = seen
        [attempt] = attempts(trigger)
        assert (ctx.trigger_id, ctx.attempt_id, ctx.fence) == (trigger.id, attempt.id, 3)
        assert (ctx.attempt_number, ctx.idempotency_key) == (2, trigger.idempotency_key)
        assert (ctx.scheduled_for, ctx.tenant) == (trigger.scheduled_for, trigger.tenant.slug)

    def test_keeps_progress_and_checkpoint_for_the_next_attempt(
        self, perform: Perform, handler: Register
    ) -> None:
        resumed = []

        def work(ctx: Context, payload: dict[str, Any]) -> None:
            resumed.append(ctx.resume_from)
            ctx.progress(0.5, "half")
            ctx.checkpoint({"page": 7})
            raise RuntimeError

        trigger = queued(handler(work))
        perform(trigger)
        assert row(trigger)["progress"] == {"fraction": 0.5, "stage": "half"}
        Trigger.objects.filter(id=trigger.id).update(state="queued", fence=2)
        trigger.refresh_from_db()
        perform(trigger)
        assert resumed == [None, {"page": 7}]

    def test_lets_an_asynchronous_handler_report_too(self, perform: Perform, handler: Register) -> None:
        async def work(ctx: Context, payload: dict[str, Any]) -> None:
            ctx.progress(0.5, "half")
            ctx.checkpoint({"page": 7})

        trigger = queued(handler(work))
        assert perform(trigger) == {"succeeded": 1}
        stored = row(trigger)
        assert (stored["progress"], stored["checkpoint"]) == ({"fraction": 0.5, "stage": "half"}, {"page": 7})

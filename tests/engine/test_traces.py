"""Traces: an attempt learns which trace it is part of, and sends it on."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs.handlers.context import Context
from tests.engine.conftest import Perform, queued
from tests.engine.test_attempt_logs import say
from tests.interfaces.api.test_traces import TRACE_ID, TRACEPARENT

pytestmark = pytest.mark.django_db(transaction=True)
Register = Callable[..., str]
Lines = Callable[[], list[dict[str, Any]]]


class TestAHandler:
    def test_is_told_of_the_trace_of_whoever_asked(self, perform: Perform, handler: Register) -> None:
        told: list[Any] = []
        name = handler(lambda ctx, _: told.append((ctx.trace_id, ctx.trace and ctx.trace.headers())))
        perform(queued(name, trace=f"{TRACEPARENT} congo=t61"), queued(name))
        assert told == [
            (TRACE_ID, {"traceparent": TRACEPARENT, "tracestate": "congo=t61"}),
            ("", None),
        ]

    def test_writes_lines_that_name_the_trace(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        async def aloud(ctx: Context, _: Any) -> None:
            say(ctx, "asynchronous")

        name = handler(lambda ctx, _: say(ctx, "synchronous"))
        perform(queued(name, trace=TRACEPARENT))
        perform(queued(handler(aloud), trace=TRACEPARENT))
        for word in ("synchronous", "asynchronous"):
            told = [line for line in lines() if line["event"].startswith(word)]
            assert [line["trace_id"] for line in told] == [TRACE_ID] * 2
        perform(queued(name))
        *_, last = [line for line in lines() if line["event"].startswith("synchronous")]
        assert "trace_id" not in last

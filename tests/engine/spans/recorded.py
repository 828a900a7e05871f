"""Spans that were recorded, as tests read them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from tests.interfaces.api.test_traces import TRACEPARENT

Register = Callable[..., str]
Spans = Callable[[], list[ReadableSpan]]
Lines = Callable[[], list[dict[str, Any]]]
CALLERS_SPAN = TRACEPARENT.split("-")[2]
UNSAMPLED = TRACEPARENT[:-2] + "00"
STEPS = ["materialize", "dispatch", "claim", "handler", "finish", "firing"]
TWICE = {"max_attempts": 2, "backoff": "fixed", "initial_delay_seconds": 60, "jitter": "none"}


def names(spans: list[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]


def trace_ids(spans: list[ReadableSpan]) -> set[str]:
    return {f"{span.context.trace_id:032x}" for span in spans}


def span_id(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


def parent_id(span: ReadableSpan) -> str:
    return f"{span.parent.span_id:016x}" if span.parent else ""


def named(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    [one] = [span for span in spans if span.name == name]
    return one


def instant(nanoseconds: int | None) -> datetime:
    assert nanoseconds is not None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)

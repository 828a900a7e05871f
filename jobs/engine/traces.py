"""The trace that an attempt is part of (docs/traces.md)."""

from typing import Any

from jobs.telemetry.traces import w3c
from jobs.telemetry.traces.w3c import TraceContext


def trace_of(row: Any) -> TraceContext | None:
    """What the handler of the claimed ``row`` sends on: the trace of whoever asked for the trigger, if it named one."""
    return w3c.recall(row.trace) if row.trace is not None else None

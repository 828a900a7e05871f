"""The keys that every log line of a piece of work carries, from any logger: the ids of the attempt, or of the request;
and the trace that a request's caller is in.

The ids stand in a context variable, so concurrent attempts do not see each other's: a thread has a context of its own,
and so has a task of an event loop. Setting it costs a fraction of a microsecond; it becomes text only when a line is
written. It holds ids alone, never a payload or a secret.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from typing import Any, Protocol
from uuid import UUID

import structlog

from jobs.telemetry import traces
from jobs.telemetry.output import Output
from jobs.telemetry.traces.w3c import TraceContext

bound = structlog.contextvars.bound_contextvars


class AttemptIds(Protocol):
    """The ids of an attempt that its lines carry, and the place where they are kept. A handler's ``Context`` has it."""

    tenant: str
    job_id: UUID
    trigger_id: UUID
    attempt_id: UUID
    attempt_number: int
    fence: int
    trace: TraceContext | None
    #: Keeps the output of its handler.
    output: Output

    @property
    def trace_id(self) -> str: ...


_attempt: ContextVar[AttemptIds | None] = ContextVar("carillon_attempt", default=None)


_request_id: ContextVar[str] = ContextVar("carillon_request", default="")
_caller: ContextVar[TraceContext | None] = ContextVar("carillon_caller", default=None)


def carry(attempt: AttemptIds) -> None:
    """From here on, every line of the current task carries the ids of ``attempt``. Spans that the task records by
    OpenTelemetry's own interface are part of the attempt's trace.
    """
    _attempt.set(attempt)
    if (recorder := traces.recorder()) is not None:
        recorder.enter(attempt.trace)


def carry_request(request_id: str) -> None:
    """From here on every line of this thread names the request; with an empty ``request_id``, no line names one."""
    _request_id.set(request_id)


def carry_caller(trace: TraceContext | None) -> None:
    """From here on this thread works for a caller in ``trace``; None: in no known trace."""
    _caller.set(trace)


@contextmanager
def calling_from(trace: TraceContext | None) -> Iterator[None]:
    """Inside, this thread works for a caller in ``trace``, as with ``carry_caller``."""
    token = _caller.set(trace)
    try:
        yield
    finally:
        _caller.reset(token)


def callers_trace() -> TraceContext | None:
    """The trace of the caller whose request this thread serves, if the request named one."""
    return _caller.get()


def current_request_id() -> str:
    """The id of the request that this thread serves; empty where it serves none."""
    return _request_id.get()


class carrying:
    """``with carrying(attempt):`` every line that this thread writes inside carries its ids, as with ``carry``.

    Keys that the code inside binds to structlog's context variables are unbound at its end: the next attempt of this
    thread must not carry them.
    """

    __slots__ = ("_attempt", "_before", "_entered", "_token")
    _before: Context
    _entered: object
    _token: Token[AttemptIds | None]

    def __init__(self, attempt: AttemptIds) -> None:
        self._attempt = attempt

    def __enter__(self) -> None:
        self._before = copy_context()
        self._token = _attempt.set(self._attempt)
        recorder = traces.recorder()
        self._entered = None if recorder is None else recorder.enter(self._attempt.trace)

    def __exit__(self, *_: object) -> None:
        if self._entered is not None and (recorder := traces.recorder()) is not None:
            recorder.leave(self._entered)
        _attempt.reset(self._token)
        if copy_context() != self._before:
            _unbind(self._before)


def _unbind(before: Context) -> None:
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**before.run(structlog.contextvars.get_contextvars))


def current_attempt() -> AttemptIds | None:
    """The attempt that this thread or task works for; None where it works for none."""
    attempt = _attempt.get()
    return None if attempt is None or _is_loose_callback() else attempt


def add_context(_: Any, __: str, event: Any) -> Any:
    """structlog's processor: adds the keys that the current context carries. A key that the line already has stays."""
    if (attempt := current_attempt()) is not None:
        event.setdefault("tenant", attempt.tenant)
        event.setdefault("job_id", str(attempt.job_id))
        event.setdefault("trigger_id", str(attempt.trigger_id))
        event.setdefault("attempt_id", str(attempt.attempt_id))
        event.setdefault("attempt", attempt.attempt_number)
        event.setdefault("fence", attempt.fence)
        if attempt.trace_id:
            event.setdefault("trace_id", attempt.trace_id)
    if request_id := _request_id.get():
        event.setdefault("request_id", request_id)
    if (caller := _caller.get()) is not None:
        event.setdefault("trace_id", caller.trace_id)
    return event


def _is_loose_callback() -> bool:
    """Whether an event loop runs a callback that belongs to no task.

    Its context is that of the task which made it. A connection that is kept alive still has the context of the attempt
    that opened it, while other attempts use it.
    """
    try:
        return asyncio.current_task() is None
    except RuntimeError:  # no loop runs in this thread
        return False

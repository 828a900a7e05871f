"""Running one synchronous handler: any behaviour of the handler becomes an ``Outcome``.

Keeps true: a handler that raises, exits, hangs or returns nonsense costs its own trigger only. In the main
thread of a process (Celery's prefork children) a timer interrupts Python code that overstays its timeout, and
``interrupt`` does so before that. No signal can stop code that is stuck inside a C call, or a handler that runs
outside the main thread, where signals are not delivered. The engine's lease renewer then ends the process.
"""

import math
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from types import FrameType
from typing import Any

from jobs.core.errors import InvalidInput
from jobs.handlers import outcome
from jobs.handlers.context import Context
from jobs.handlers.outcome import Outcome
from jobs.handlers.registry import JobType

#: How long a handler may take to unwind after its timeout before it is interrupted again (or, when it is
#: asynchronous, abandoned).
GRACE_SECONDS = 5.0

#: ``SystemExit`` raised by these belongs to a worker that is being stopped, not to the handler it
#: interrupted.
_STOPPERS = ("billiard", "celery")


def run_sync(job_type: JobType, ctx: Context, payload: dict[str, Any]) -> Outcome:
    """Run ``job_type``'s synchronous handler once on ``payload`` and say how it ended.

    Raises only ``KeyboardInterrupt`` and the ``SystemExit`` of a worker that is being stopped.
    ``Context.timeout`` (else the type's) is enforced in the main thread; see the module's docstring for the
    rest.
    """
    try:
        argument = job_type.parse(payload)
    except InvalidInput as problem:
        return outcome.invalid_payload(problem)
    if threading.current_thread() is not threading.main_thread():
        return _call(job_type, ctx, argument)
    with _NOTHING if _ours else alarms(), _Alarm(ctx, ctx.timeout or job_type.timeout) as alarm:
        return _call(job_type, ctx, argument, alarm)


@contextmanager
def alarms() -> Iterator[None]:
    """Take SIGALRM and the interval timer over, and restore the previous handler and timer at the end.

    For one call ``run_sync`` does so itself. Around many calls it saves most of the cost of an alarm: the timer, once
    set, may ring while no call waits for it. In any thread but the main one it does nothing.
    """
    global _rings_at, _ours
    if _ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGALRM, _ring)
    started_at, outer = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    _ours, _rings_at = True, math.inf
    try:
        yield
    finally:
        remaining, interval = outer
        if remaining:
            remaining = max(1e-3, remaining - (time.monotonic() - started_at))
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)
        signal.signal(signal.SIGALRM, previous or signal.SIG_DFL)
        _ours = False


def interrupt(ctx: Context) -> bool:
    """Stop the handler that serves ``ctx``, as at its timeout; from any thread, as often as it takes.

    False: the handler is not at work in the main thread, the only thread where it can be interrupted. The attempt of an
    interrupted handler ends as cancelled.
    """
    with _ringing:
        if _at_work is None or _at_work.ctx is not ctx:
            return False
        _at_work.interrupted = True
        signal.pthread_kill(_main_thread_id(), signal.SIGALRM)
        return True


def _main_thread_id() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident


class _Stopped(BaseException):
    """Raised in the handler by the signal. Not an ``Exception``: a broad ``except`` must not swallow it."""


class _Alarm:
    """Rings when a call overstays its limit, and again after a grace. Use it within ``alarms``, in the main thread."""

    __slots__ = ("_armed", "_due_at", "ctx", "interrupted", "limit", "rang")

    def __init__(self, ctx: Context, limit: timedelta) -> None:
        self.ctx = ctx
        self.limit = limit
        self.rang = False
        self.interrupted = False
        self._armed = False

    def __enter__(self) -> "_Alarm":
        global _at_work
        self._due_at = time.monotonic() + self.limit.total_seconds()
        # At work first: a signal without a waiting call stops the timer.
        _at_work = self
        # Set again if earlier calls left the timer stopped or set too late, so that it rings in time for this one.
        if self._due_at < _rings_at or not signal.getitimer(signal.ITIMER_REAL)[0]:
            _wind(self._due_at)
        self._armed = True
        return self

    def disarm(self) -> None:
        """From here on a late ring is ignored: it must not strike our own code."""
        self._armed = False

    def __exit__(self, *_: object) -> None:
        global _at_work
        self._armed = False
        # From here on the signal is not sent.
        with _ringing:
            _at_work = None
        if self.rang:
            _wind(math.inf)

    def ring(self) -> None:
        """Stop the call if its time is up. A ring that was set for the previous call comes too early."""
        if not (self.interrupted or time.monotonic() >= self._due_at):
            _wind(self._due_at)
        elif self._armed:
            self.rang = True
            raise _Stopped


def _wind(due_at: float) -> None:
    """Set the timer to a monotonic time; infinity: stop it."""
    global _rings_at
    _rings_at = due_at
    wait = 0.0 if due_at == math.inf else max(1e-3, due_at - time.monotonic())
    signal.setitimer(signal.ITIMER_REAL, wait, GRACE_SECONDS if wait else 0.0)


def _ring(signum: int, frame: FrameType | None) -> None:
    if _at_work is None:
        _wind(math.inf)
    else:
        _at_work.ring()


#: Held while a signal is sent, and while the call that the signal is meant for ends. It guards ``_at_work``, which only
#: the main thread sets.
_ringing = threading.Lock()
_at_work: _Alarm | None = None
#: Whether SIGALRM is ours, and when the timer was set to ring.
_ours = False
_NOTHING = nullcontext()
_rings_at = math.inf


def _call(job_type: JobType, ctx: Context, argument: Any, alarm: _Alarm | None = None) -> Outcome:
    error: BaseException | None = None
    value: object = None
    try:
        try:
            value = job_type.handler(ctx, argument)
        finally:
            if alarm:
                alarm.disarm()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        if _stops_the_worker(raised):
            raise
        error = raised
    if alarm and alarm.rang:
        return _overstayed(ctx, alarm, error)
    return outcome.outcome_of_exception(error) if error else outcome.outcome_of_return(value)


def _overstayed(ctx: Context, alarm: _Alarm, error: BaseException | None) -> Outcome:
    """A handler that was stopped. If its trigger was also asked to cancel, it ends as cancelled (DESIGN §4)."""
    if alarm.interrupted:
        return outcome.cancelled(message="The handler ignored the cancel and was interrupted.")
    if ctx.cancelled():
        return outcome.cancelled(message="The handler ignored the cancel and was stopped at its timeout.")
    return outcome.timed_out(limit=alarm.limit, error=error)


def _stops_the_worker(error: BaseException) -> bool:
    if not isinstance(error, SystemExit):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith(_STOPPERS)

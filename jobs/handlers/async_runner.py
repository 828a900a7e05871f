"""Running asynchronous handlers: one event loop in a daemon thread per process, many calls at once.

Keeps true: every call given to ``run`` ends in exactly one ``on_outcome``, within its timeout plus a grace of
``GRACE_SECONDS``, even if the handler ignores its cancellation. Until ``run`` returns, callbacks run in the thread that
called it, so that they may use its database connection. Calls that are left to go on by themselves report from the
loop's thread. A handler that blocks the loop with synchronous code blocks every call of the process; the leases then
run out and the triggers are reaped.
"""

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from jobs.core.errors import InvalidInput
from jobs.handlers import egress, outcome
from jobs.handlers.context import Context
from jobs.handlers.execution import GRACE_SECONDS
from jobs.handlers.outcome import Outcome
from jobs.handlers.post import Ended, Post
from jobs.handlers.registry import JobType
from jobs.handlers.shares import look_ups
from jobs.handlers.shares.places import MAX_AT_WORK, MAX_WAITING, Places, PlaceUsage
from jobs.telemetry import carry, get_logger

log = get_logger()
Call = tuple[JobType, Context, dict[str, Any]]

#: How often the runner checks whether one of its calls was cancelled.
CANCEL_POLL_SECONDS = 0.2
#: Outcomes are handed over together, at most this late: each hand-over makes two threads contend for the interpreter.
REPORT_SECONDS = 0.01
#: A look this late was delayed with the whole loop. Answers that arrived in that time are read first.
HELD_UP_SECONDS = 0.5
READ_SECONDS = 0.1
#: A call that is stopped takes half a millisecond of Python, and a slow target's calls overstay by the hundred at once.
MAX_STOPS_A_TURN = 10


class AsyncRunner:
    """Runs asynchronous handlers on one loop with one HTTP session. One runner serves a process; forks make their own.

    ``rules`` are the egress rules of the session (None: the engine's settings, read at the first call).
    ``max_concurrent`` calls run at once, shared by tenant (``jobs.handlers.shares``) unless not ``shared``; a call's
    timeout starts when it does.
    """

    def __init__(
        self,
        *,
        rules: egress.EgressRules | None = None,
        max_concurrent: int = MAX_AT_WORK,
        max_waiting: int = MAX_WAITING,
        shared: bool = True,
    ) -> None:
        self._rules = rules
        self._max_concurrent, self._max_waiting, self._shared = max_concurrent, max_waiting, shared
        self._pid = 0
        self._starting = threading.Lock()

    def run(
        self,
        calls: Sequence[Call],
        on_outcome: Callable[[Context, Outcome], None],
        *,
        on_idle: Callable[[], None] | None = None,
        idle_seconds: float = 0.1,
        leave_after: float | None = None,
        on_last: Callable[[], None] | None = None,
        on_start: Callable[[Context], None] = lambda _: None,
        may_start: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Run ``calls`` concurrently; call ``on_outcome`` in this thread as each ends; return True when all have.

        ``on_idle`` is called, also here, whenever ``idle_seconds`` pass without an outcome, so that the
        engine can flush the outcomes that it gathered. An exception from a callback cancels the unfinished calls and is
        raised. After a ``close`` in another thread, ``concurrent.futures.CancelledError`` is raised.

        Calls that still run after ``leave_after`` seconds (None: wait for all) and a few turns of the loop are left to
        go on, and False is returned. ``on_outcome`` and, in the end, ``on_last`` are then called in the loop's thread,
        and must be quick.

        A call waits for a place of its tenant's, and while ``may_start`` says no. ``on_start`` is called in the loop's
        thread as each call starts.
        """
        loop = self._loop_of_this_process()
        post = Post(loop)
        batch = asyncio.run_coroutine_threadsafe(self._run_batch(calls, post.put, on_start, may_start), loop)
        batch.add_done_callback(lambda _: post.end())
        leave_at = math.inf if leave_after is None else time.monotonic() + leave_after
        try:
            while (items := post.next(on_idle, idle_seconds, leave_at)) is not None:
                for ctx, ending in items:
                    on_outcome(ctx, ending)
                if post.left and post.box.empty():
                    return False
                if time.monotonic() >= leave_at:
                    post.leave(on_outcome, on_last)
                    leave_at = math.inf
        except BaseException:
            batch.cancel()
            raise
        batch.result()
        return True

    def usage(self) -> PlaceUsage:
        """The tenants whose calls wait for a place in this process. From any thread."""
        return self._places.usage() if self._pid == os.getpid() else PlaceUsage()

    def failed(self) -> bool:
        """Whether an error ended the loop, as when a handler closed its descriptors: none of its calls will end."""
        return self._pid == os.getpid() and not self._thread.is_alive()

    def close(self) -> None:
        """Cancel the unfinished calls, close the session, end the thread. Repeatable; ``run`` starts afresh."""
        if self._pid != os.getpid() or self.failed():
            return
        self._pid = 0
        asyncio.run_coroutine_threadsafe(self._wind_down(), self._loop).result(timeout=2 * GRACE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=GRACE_SECONDS)
        self._loop.close()

    def _loop_of_this_process(self) -> asyncio.AbstractEventLoop:
        """The running loop. A forked child never touches its parent's loop: that loop's thread does not exist here."""
        with self._starting:
            if self._pid != os.getpid():
                self._egress: egress.Egress | None = None
                self._batches: set[_Batch] = set()
                self._loop = asyncio.new_event_loop()
                soon, room = self._loop.call_soon, self._max_waiting
                self._places = Places(self._max_concurrent, room=room, soon=soon, shared=self._shared)
                self._stops = _Stops(self._loop)
                self._resolvers = ThreadPoolExecutor(look_ups.MAX_LOOK_UPS, "carillon-resolver")
                self._loop.set_default_executor(self._resolvers)
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="carillon-async-handlers", daemon=True
                )
                self._thread.start()
                self._pid = os.getpid()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        except Exception:  # the engine asks ``failed`` and ends the process
            log.exception("event loop failed")

    async def _run_batch(
        self,
        calls: Sequence[Call],
        report: Callable[[list[Ended]], None],
        on_start: Callable[[Context], None],
        may_start: Callable[[], bool],
    ) -> None:
        if self._egress is None:
            self._egress = egress.open_egress(self._rules or egress.EgressRules.from_settings())
        egress.current.set(self._egress)
        batch = _Batch(
            calls, self._places, self._stops, report=report, on_start=on_start, may_start=may_start
        )
        self._batches.add(batch)
        try:
            await batch.run()
        finally:
            self._batches.discard(batch)
            batch.abandon()

    async def _wind_down(self) -> None:
        for batch in self._batches:
            batch.abandon()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=GRACE_SECONDS)
        if self._egress is not None:
            await self._egress.session.close()
        self._resolvers.shutdown(wait=False, cancel_futures=True)


class _Running:
    """A call at work: how long it may run, by the loop's clock; whether that is over, so that it is stopped in its
    turn; and whether it was told to stop and has a grace.
    """

    __slots__ = ("ctx", "limit", "over", "stopped", "until")

    def __init__(self, ctx: Context, limit: timedelta, now: float) -> None:
        self.ctx = ctx
        self.limit = limit
        self.until = now + limit.total_seconds()
        self.over = self.stopped = False

    def outcome_of_stop(self) -> Outcome:
        if self.ctx.cancelled():
            return outcome.cancelled(message="The handler was stopped because its trigger was cancelled.")
        return outcome.timed_out(limit=self.limit)


class _Batch:
    """The calls of one ``run``, in the loop's thread: one task each, and one timer that looks after all of them.

    The timer rings when the next call overstays its time. It also rings often enough to carry cancels from the engine's
    threading events to the loop: polling keeps the engine's side free of asyncio.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        places: Places,
        stops: "_Stops",
        *,
        report: Callable[[list[Ended]], None],
        on_start: Callable[[Context], None],
        may_start: Callable[[], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting = dict(enumerate(calls))
        self._places = places
        self._stops = stops
        self._report = report
        self._on_start = on_start
        self.may_start = may_start
        self._at_work: dict[asyncio.Task[Outcome], _Running] = {}
        self._gathered: list[Ended] = []
        self._missing = len(calls)
        self._all_ended = self._loop.create_future()
        self._held_up = False
        self._timer = self._loop.call_later(CANCEL_POLL_SECONDS, self._look)

    async def run(self) -> None:
        """Return when every call has been reported."""
        for number, (_, ctx, _) in list(self._waiting.items()):
            self._places.enter(ctx.tenant, _Waiting(self, number))
        if self._missing:
            await self._all_ended
        self._post()

    def abandon(self) -> None:
        """Start no more calls, and stop those at work without a report of how they end. Repeatable."""
        self._timer.cancel()
        self._waiting.clear()
        at_work, self._at_work = self._at_work, {}
        for task, running in at_work.items():
            task.cancel()
            self._places.leave(running.ctx.tenant)

    def start(self, number: int) -> bool:
        """Start a call that has got a place. False: the call needs no place any more."""
        if number not in self._waiting:
            return False
        job_type, ctx, payload = self._waiting.pop(number)
        if ctx.cancelled():
            self._end_before(ctx)
            return False
        self._on_start(ctx)
        running = _Running(ctx, ctx.timeout or job_type.timeout, self._loop.time())
        task = self._loop.create_task(_call(job_type, running, payload))
        self._at_work[task] = running
        task.add_done_callback(self._on_done)
        if running.until < self._timer.when():
            self._look_at(running.until)
        return True

    def _on_done(self, task: asyncio.Task[Outcome]) -> None:
        running = self._at_work.pop(task, None)
        if running is None:  # given up before
            return
        if running.stopped:
            self._end(running.ctx, running.outcome_of_stop())
        elif task.cancelled():
            self._end(running.ctx, outcome.outcome_of_exception(asyncio.CancelledError()))
        else:
            self._end(running.ctx, task.result())
        self._places.leave(running.ctx.tenant)

    def _end_before(self, ctx: Context) -> None:
        self._end(ctx, outcome.cancelled(message="The trigger was cancelled before its handler started."))

    def _end(self, ctx: Context, ending: Outcome) -> None:
        if not self._gathered:
            self._loop.call_later(REPORT_SECONDS, self._post)
        self._gathered.append((ctx, ending))
        self._missing -= 1
        if not self._missing and not self._all_ended.done():
            self._all_ended.set_result(None)

    def _post(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._report(gathered)

    def _look_at(self, when: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        self._held_up = not self._held_up and now > self._timer.when() + HELD_UP_SECONDS
        if self._held_up:
            self._look_at(now + READ_SECONDS)
            return
        for task, running in list(self._at_work.items()):
            if task.done():  # how it ended is about to be told
                continue
            if running.stopped and now >= running.until:
                del self._at_work[task]
                task.cancel()
                self._end(running.ctx, running.outcome_of_stop())
                self._places.leave(running.ctx.tenant)
            elif not running.over and (now >= running.until or running.ctx.cancelled()):
                self._stops.add(task, running)
        for number in [number for number, (_, ctx, _) in self._waiting.items() if ctx.cancelled()]:
            self._end_before(self._waiting.pop(number)[1])
        self._places.advance()
        next_up = min((running.until for running in self._at_work.values()), default=math.inf)
        self._look_at(min(now + CANCEL_POLL_SECONDS, next_up))


class _Stops:
    """Stops calls a few a turn of the loop, so that others go on in between. One may end before its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: deque[tuple[asyncio.Task[Outcome], _Running]] = deque()

    def add(self, task: asyncio.Task[Outcome], running: _Running) -> None:
        running.over, running.until = True, math.inf
        if not self._due:
            self._loop.call_soon(self._stop_some)
        self._due.append((task, running))

    def _stop_some(self) -> None:
        for _ in range(min(MAX_STOPS_A_TURN, len(self._due))):
            task, running = self._due.popleft()
            if not task.done():
                running.stopped, running.until = True, self._loop.time() + GRACE_SECONDS
                task.cancel()
        if self._due:
            self._loop.call_soon(self._stop_some)


class _Waiting:
    """A call of a batch in its tenant's line."""

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: _Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def may_start(self) -> bool:
        return self._batch.may_start()

    def start(self) -> bool:
        return self._batch.start(self._number)


async def _call(job_type: JobType, running: _Running, payload: dict[str, Any]) -> Outcome:
    carry(running.ctx)
    look_ups.tenant.set(running.ctx.tenant)
    try:
        argument = job_type.parse(payload)
    except InvalidInput as problem:
        return outcome.invalid_payload(problem)
    try:
        return outcome.outcome_of_return(await job_type.handler(running.ctx, argument))
    except BaseException as error:  # noqa: BLE001 - nothing a handler raises may end the loop; Ctrl-C never lands here
        # A stop ends hundreds of a slow target's calls at once: their tracebacks took a seventh of a process's Python.
        return running.outcome_of_stop() if running.stopped else outcome.outcome_of_exception(error)

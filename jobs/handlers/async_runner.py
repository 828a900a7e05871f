"""Running asynchronous handlers: one event loop in a daemon thread per process, many calls at once.

Keeps true: every call given to ``run`` ends in exactly one ``on_outcome``, within its timeout plus a grace of
``GRACE_SECONDS``, whatever the handler does with its cancellation. Callbacks run in the thread that called
``run``, so that they may use its database connection, until ``run`` returns; what is left to go on by itself reports
from the loop's. A handler that blocks the loop with synchronous code blocks every call of the process; the leases then
run out and the triggers are reaped.
"""

import asyncio
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobs.core.errors import InvalidInput
from jobs.handlers import egress, outcome
from jobs.handlers.context import Context
from jobs.handlers.execution import GRACE_SECONDS
from jobs.handlers.outcome import Outcome
from jobs.handlers.registry import JobType

Call = tuple[JobType, Context, dict[str, Any]]
Ended = tuple[Context, Outcome]

#: How often the runner looks whether a call in hand was cancelled.
CANCEL_POLL_SECONDS = 0.2
#: Outcomes are handed over together, at most this late: each hand-over has two threads contend for the interpreter.
REPORT_SECONDS = 0.01
#: Threads for name resolution: enough that one tenant's hanging resolver does not starve the others.
RESOLVER_THREADS = 32


class AsyncRunner:
    """Runs asynchronous handlers on one loop with one HTTP session. One serves a process; forks make their own.

    ``rules`` are the egress rules of the session (None: the engine's settings, read at the first call).
    ``max_concurrent`` calls run at once; a call's timeout starts when it does.
    """

    def __init__(self, *, rules: egress.EgressRules | None = None, max_concurrent: int = 100) -> None:
        self._rules = rules
        self.max_concurrent = max_concurrent
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
    ) -> bool:
        """Run ``calls`` concurrently; call ``on_outcome`` in this thread as each ends; return True when all have.

        ``on_idle`` is called, also here, whenever ``idle_seconds`` pass without an outcome, so that the
        engine can flush what it gathered. An exception from a callback cancels the calls still in hand and is
        raised; after a ``close`` in another thread ``concurrent.futures.CancelledError`` is.

        What still runs after ``leave_after`` seconds (None: wait for all) is left to go on, and False returned:
        ``on_outcome`` and, in the end, ``on_last`` are then called in the loop's thread, and must be quick.
        """
        loop = self._loop_of_this_process()
        post = _Post()
        batch = asyncio.run_coroutine_threadsafe(self._run_batch(calls, post.put), loop)
        batch.add_done_callback(lambda _: post.end())
        leave_at = math.inf if leave_after is None else time.monotonic() + leave_after
        left = False
        try:
            while (items := post.next(on_idle, idle_seconds, leave_at)) is not None:
                for ctx, ending in items:
                    on_outcome(ctx, ending)
                if time.monotonic() >= leave_at:
                    post.leave(loop, on_outcome, on_last)
                    left, leave_at = True, math.inf
                if left and post.box.empty():
                    return False
        except BaseException:
            batch.cancel()
            raise
        batch.result()
        return True

    def close(self) -> None:
        """Cancel what is in hand, close the session, end the thread. Repeatable; ``run`` starts afresh."""
        if self._pid != os.getpid():
            return
        self._pid = 0
        asyncio.run_coroutine_threadsafe(self._wind_down(), self._loop).result(timeout=2 * GRACE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=GRACE_SECONDS)
        self._loop.close()

    def _loop_of_this_process(self) -> asyncio.AbstractEventLoop:
        """The running loop. A forked child never touches its parent's: that thread does not exist here."""
        with self._starting:
            if self._pid != os.getpid():
                self._egress: egress.Egress | None = None
                self._loop = asyncio.new_event_loop()
                self._resolvers = ThreadPoolExecutor(RESOLVER_THREADS, "carillon-resolver")
                self._loop.set_default_executor(self._resolvers)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="carillon-async-handlers", daemon=True
                )
                self._thread.start()
                self._pid = os.getpid()
            return self._loop

    async def _run_batch(self, calls: Sequence[Call], report: Callable[[list[Ended]], None]) -> None:
        if self._egress is None:
            self._egress = egress.open_egress(self._rules or egress.EgressRules.from_settings())
        egress.current.set(self._egress)
        room = asyncio.Semaphore(self.max_concurrent)
        loop = asyncio.get_running_loop()
        stops: list[asyncio.Future[None]] = [loop.create_future() for _ in calls]
        gathered: list[Ended] = []

        def post() -> None:
            if gathered:
                report(gathered.copy())
                gathered.clear()

        async def one(call: Call, stop: asyncio.Future[None]) -> None:
            async with room:
                ended = await _run_one(*call, stop)
            if not gathered:
                loop.call_later(REPORT_SECONDS, post)
            gathered.append((call[1], ended))

        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(
                _watch([(ctx, stop) for (_, ctx, _), stop in zip(calls, stops, strict=True)])
            )
            tasks = [group.create_task(one(call, stop)) for call, stop in zip(calls, stops, strict=True)]
            if tasks:
                await asyncio.wait(tasks)
            post()
            watcher.cancel()

    async def _wind_down(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=GRACE_SECONDS)
        if self._egress is not None:
            await self._egress.session.close()
        self._resolvers.shutdown(wait=False, cancel_futures=True)


class _Post:
    """Where a batch's outcomes go: into a box that the caller empties, and once it has left straight to its callback.

    ``put``, ``end`` and the switch between the two happen in the loop's thread, so nothing falls between.
    """

    def __init__(self) -> None:
        self.box: queue.SimpleQueue[list[Ended] | None] = queue.SimpleQueue()
        self._on_outcome: Callable[[Context, Outcome], None] | None = None
        self._on_last: Callable[[], None] | None = None

    def put(self, items: list[Ended]) -> None:
        if self._on_outcome is None:
            self.box.put(items)
            return
        for ctx, ending in items:
            self._on_outcome(ctx, ending)

    def end(self) -> None:
        if self._on_outcome is None:
            self.box.put(None)
        elif self._on_last is not None:
            self._on_last()

    def leave(
        self,
        loop: asyncio.AbstractEventLoop,
        on_outcome: Callable[[Context, Outcome], None],
        on_last: Callable[[], None] | None,
    ) -> None:
        """In the caller's thread: from here on nothing more comes into the box."""
        switched = threading.Event()

        def switch() -> None:
            self._on_outcome, self._on_last = on_outcome, on_last
            switched.set()

        loop.call_soon_threadsafe(switch)
        switched.wait()

    def next(
        self, on_idle: Callable[[], None] | None, idle_seconds: float, until: float
    ) -> list[Ended] | None:
        """What came next; None after the last; empty when the time has come to leave."""
        while (left := until - time.monotonic()) > 0:
            timeout = min(left, idle_seconds if on_idle else math.inf)
            try:
                return self.box.get(timeout=None if math.isinf(timeout) else timeout)
            except queue.Empty:
                if on_idle:
                    on_idle()
        return []


async def _watch(calls: list[tuple[Context, asyncio.Future[None]]]) -> None:
    """Carry cancels from the engine's threading events to the loop; polling keeps the engine's side free of
    asyncio.
    """
    while True:
        await asyncio.sleep(CANCEL_POLL_SECONDS)
        for ctx, stop in calls:
            if ctx.cancelled() and not stop.done():
                stop.set_result(None)


async def _run_one(
    job_type: JobType, ctx: Context, payload: dict[str, Any], stop: asyncio.Future[None]
) -> Outcome:
    limit = ctx.timeout or job_type.timeout
    if ctx.cancelled():
        return outcome.cancelled(message="The trigger was cancelled before its handler started.")
    handler = asyncio.create_task(_call(job_type, ctx, payload))
    either: set[asyncio.Future[Any]] = {handler, stop}
    try:
        await asyncio.wait(either, timeout=limit.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        if handler.done():
            return handler.result()
        handler.cancel()
        await asyncio.wait({handler}, timeout=GRACE_SECONDS)
    finally:
        handler.cancel()
    if ctx.cancelled():
        return outcome.cancelled(message="The handler was stopped because its trigger was cancelled.")
    return outcome.timed_out(limit=limit)


async def _call(job_type: JobType, ctx: Context, payload: dict[str, Any]) -> Outcome:
    try:
        argument = job_type.parse(payload)
    except InvalidInput as problem:
        return outcome.invalid_payload(problem)
    try:
        return outcome.outcome_of_return(await job_type.handler(ctx, argument))
    except BaseException as error:  # noqa: BLE001 - nothing a handler raises may end the loop; Ctrl-C never lands here
        return outcome.outcome_of_exception(error)

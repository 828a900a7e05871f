"""Running asynchronous handlers: one event loop in a daemon thread per process, many calls at once.

Keeps true: every call given to ``run`` ends in exactly one ``on_outcome``, within its timeout plus a grace of
``GRACE_SECONDS``, whatever the handler does with its cancellation. Callbacks run in the thread that called
``run``, so that they may use its database connection. A handler that blocks the loop with synchronous code
blocks every call of the process; the leases then run out and the triggers are reaped.
"""

import asyncio
import os
import queue
import threading
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

#: How often the runner looks whether a call in hand was cancelled.
CANCEL_POLL_SECONDS = 0.2
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
    ) -> None:
        """Run ``calls`` concurrently; call ``on_outcome`` in this thread as each ends; return when all have.

        ``on_idle`` is called, also here, whenever ``idle_seconds`` pass without an outcome, so that the
        engine can flush what it gathered. An exception from a callback cancels the calls still in hand and is
        raised; after a ``close`` in another thread ``concurrent.futures.CancelledError`` is.
        """
        loop = self._loop_of_this_process()
        ended: queue.SimpleQueue[tuple[Context, Outcome] | None] = queue.SimpleQueue()
        batch = asyncio.run_coroutine_threadsafe(self._run_batch(calls, ended.put), loop)
        batch.add_done_callback(lambda _: ended.put(None))
        try:
            while (item := _next(ended, on_idle, idle_seconds)) is not None:
                on_outcome(*item)
        finally:
            batch.cancel()
        batch.result()

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

    async def _run_batch(
        self, calls: Sequence[Call], report: Callable[[tuple[Context, Outcome]], None]
    ) -> None:
        if self._egress is None:
            self._egress = egress.open_egress(self._rules or egress.EgressRules.from_settings())
        egress.current.set(self._egress)
        room = asyncio.Semaphore(self.max_concurrent)
        loop = asyncio.get_running_loop()
        stops: list[asyncio.Future[None]] = [loop.create_future() for _ in calls]

        async def one(call: Call, stop: asyncio.Future[None]) -> None:
            async with room:
                ended = await _run_one(*call, stop)
            report((call[1], ended))

        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(
                _watch([(ctx, stop) for (_, ctx, _), stop in zip(calls, stops, strict=True)])
            )
            tasks = [group.create_task(one(call, stop)) for call, stop in zip(calls, stops, strict=True)]
            if tasks:
                await asyncio.wait(tasks)
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


def _next(
    ended: "queue.SimpleQueue[tuple[Context, Outcome] | None]",
    on_idle: Callable[[], None] | None,
    idle_seconds: float,
) -> tuple[Context, Outcome] | None:
    while True:
        try:
            return ended.get(timeout=idle_seconds if on_idle else None)
        except queue.Empty:
            if on_idle:
                on_idle()


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

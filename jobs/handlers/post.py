"""How outcomes of asynchronous calls come to the engine: while its thread waits for them, and afterwards."""

import asyncio
import math
import queue
import time
from collections.abc import Callable

from jobs.handlers.context import Context
from jobs.handlers.outcome import Outcome

Ended = tuple[Context, Outcome]

#: Turns of the loop before a batch is left to itself: as many as a call needs until its request is out
#: (``shares.places``). While turns are slow, a thread that claims more work takes the interpreter from the loop.
TURNS = 8


class Post:
    """Passes a batch's outcomes on: into a box that the caller empties, or, once the caller has left, to its callback.

    ``put``, ``end`` and the switch between the two happen in the loop's thread, so no outcome is lost in between.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.box: queue.SimpleQueue[list[Ended] | None] = queue.SimpleQueue()
        #: No more outcomes come into the box.
        self.left = False
        self._loop = loop
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
        self, on_outcome: Callable[[Context, Outcome], None], on_last: Callable[[], None] | None
    ) -> None:
        """In the caller's thread: leave the batch to itself once the loop has gone round a few times.

        ``next`` then returns once more, and ``left`` is true.
        """

        def go_round(turns: int) -> None:
            if turns:
                self._loop.call_soon(go_round, turns - 1)
                return
            self._on_outcome, self._on_last = on_outcome, on_last
            self.left = True
            self.box.put([])

        self._loop.call_soon_threadsafe(go_round, TURNS)

    def next(
        self, on_idle: Callable[[], None] | None, idle_seconds: float, until: float
    ) -> list[Ended] | None:
        """The next outcomes; None after the last; empty when the time has come to leave, or the batch is left."""
        while (seconds := until - time.monotonic()) > 0:
            timeout = min(seconds, idle_seconds if on_idle else math.inf)
            try:
                return self.box.get(timeout=None if math.isinf(timeout) else timeout)
            except queue.Empty:
                if on_idle:
                    on_idle()
        return []

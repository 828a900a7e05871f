"""Places: which asynchronous calls of a process are at work, shared by tenant as they come and go.

A tenant may take a place while it has fewer than half as many as are free. So a tenant alone gets a third of all
places, and each next tenant a third of the places that are left. It takes a dozen tenants, all of them slow, to keep
another's calls from starting. A call that gets no place waits in its tenant's line, which holds up no other line.

In each turn of the loop a few calls start, and tenants take turns. Until its request is out, a call needs some eight
turns of the loop, and each of them lasts as long as the steps of all calls in it. If a hundred calls of one tenant
started at once on full processors, another's would be seconds late. With one call in each turn, the turns themselves
would take a seventh of a worker's processor time, so fewer calls start only where turns are slow.

All of it happens in the event loop's thread; ``usage`` may be called from any thread.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

#: Calls of a process that are at work at once: coroutines and sockets. A process may open 1,024 sockets by default.
MAX_AT_WORK = 600
#: Claimed calls of a process that wait, each with its payload in memory. No more triggers are claimed of a tenant that
#: has more waiting calls than there is room left.
MAX_WAITING = 400
#: Calls that start in one turn of the loop, and in one that follows a turn of ``SLOW_SECONDS``. Each quicker turn lets
#: one more start in the next.
STARTS, STARTS_WHEN_SLOW = 16, 2
#: Sixteen starts, and as many of each later step, take half as long on a processor of their own.
SLOW_SECONDS = 0.05


class Call(Protocol):
    """A call that wants a place."""

    def may_start(self) -> bool:
        """False: not now; it stays in line until the next ``advance``."""

    def start(self) -> bool:
        """Begin. False: it wants no place any more."""


class PlaceUsage(NamedTuple):
    """``waiting``: tenants whose calls wait; ``crowded``: the tenants of which no more calls should come here."""

    waiting: Collection[str] = ()
    crowded: Collection[str] = ()


class Places:
    """``total`` places of one event loop, and ``room`` for the calls that wait.

    ``soon`` calls a function in the loop's next turn. ``shared`` False: the tenant that comes first may take all.
    ``clock``: seconds, as they pass.
    """

    def __init__(
        self,
        total: int,
        *,
        room: int,
        soon: Callable[[Callable[[], None]], Any],
        shared: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._room = room
        self._soon = soon
        self._shared = shared
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._busy = 0
        #: By tenant; the tenant that was served last is the last one.
        self._lines: dict[str, deque[Call]] = {}
        self._waiting = 0
        #: How many calls started in this turn of the loop, how many may, and when the first of them did.
        self._started, self._starts, self._began = 0, STARTS, 0.0

    def enter(self, tenant: str, call: Call) -> None:
        """Start ``call`` at once if there is a place for it and its tenant has no line; else put it in line."""
        if tenant not in self._lines and self._may_start(tenant, call):
            self._start(tenant, call)
            return
        self._lines.setdefault(tenant, deque()).append(call)
        self._waiting += 1

    def leave(self, tenant: str) -> None:
        """A call of the tenant has ended: waiting calls may start."""
        self._give_back(tenant)
        if self._lines:
            self.advance()

    def advance(self) -> None:
        """Start the calls that may start, one of each tenant in turn."""
        lines = list(self._lines)
        while lines and self._started < self._starts:
            lines = [tenant for tenant in lines if self._advance(tenant)]

    def usage(self) -> PlaceUsage:
        left = self._room - self._waiting
        lines = {tenant: len(line) for tenant, line in self._lines.copy().items()}
        return PlaceUsage(
            tuple(tenant for tenant in lines if not self._has_room(tenant)),
            tuple(tenant for tenant, waiting in lines.items() if waiting > left),
        )

    def _advance(self, tenant: str) -> bool:
        """Start the first of a line. Returns whether the next one may be tried."""
        line = self._lines[tenant]
        if not self._may_start(tenant, line[0]):
            return False
        call = line.popleft()
        self._waiting -= 1
        del self._lines[tenant]
        if line:
            self._lines[tenant] = line
        self._start(tenant, call)
        return bool(line)

    def _may_start(self, tenant: str, call: Call) -> bool:
        return self._started < self._starts and self._has_room(tenant) and call.may_start()

    def _start(self, tenant: str, call: Call) -> None:
        if not self._started:
            self._began = self._clock()
            self._soon(self._next_turn)
        self._started += 1
        self._taken[tenant] += 1
        self._busy += 1
        if not call.start():
            self._give_back(tenant)

    def _next_turn(self) -> None:
        slow = self._clock() - self._began > SLOW_SECONDS
        self._started, self._starts = 0, STARTS_WHEN_SLOW if slow else min(STARTS, self._starts + 1)
        if self._lines:
            self.advance()

    def _give_back(self, tenant: str) -> None:
        self._busy -= 1
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]

    def _has_room(self, tenant: str) -> bool:
        free = self._total - self._busy
        return self._taken[tenant] < free / 2 if self._shared else free > 0

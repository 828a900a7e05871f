"""Places: which asynchronous calls of a process are at work, shared by tenant as they come and go.

A tenant may take a place while it has less than half as many as are free. So one alone gets a third of all, and each
next one a third of what is left: it takes a dozen tenants, all of them slow, to keep another's calls from starting. A
call that gets no place waits in its tenant's line, which holds up no other line.

All of it happens in the event loop's thread; ``usage`` may be asked from any.
"""

from collections import Counter, deque
from collections.abc import Collection
from typing import NamedTuple, Protocol

#: Calls of a process that are at work at once: coroutines and sockets, of which a process may open 1,024 by default.
MAX_AT_WORK = 600
#: Claimed calls of a process that wait, each with its payload in memory. A tenant of which more wait than there is room
#: left is claimed no more of.
MAX_WAITING = 400


class Call(Protocol):
    """What wants a place."""

    def may_start(self) -> bool:
        """False: not just now; it stays in line until the next ``advance``."""

    def start(self) -> bool:
        """Begin. False: it wants no place any more."""


class PlaceUsage(NamedTuple):
    """``waiting``: tenants of which calls wait; ``crowded``: those of which no more should be brought here."""

    waiting: Collection[str] = ()
    crowded: Collection[str] = ()


class Places:
    """``total`` places of one event loop, and ``room`` for those that wait.

    ``shared`` False: whoever comes first may take all of them.
    """

    def __init__(self, total: int, *, room: int, shared: bool = True) -> None:
        self._total = total
        self._room = room
        self._shared = shared
        self._taken: Counter[str] = Counter()
        self._busy = 0
        self._lines: dict[str, deque[Call]] = {}
        self._waiting = 0

    def enter(self, tenant: str, call: Call) -> None:
        """Start ``call`` at once if there is a place for it and none of its tenant's waits; else put it in line."""
        if tenant not in self._lines and self._has_room(tenant) and call.may_start():
            self._start(tenant, call)
            return
        self._lines.setdefault(tenant, deque()).append(call)
        self._waiting += 1

    def leave(self, tenant: str) -> None:
        """A call of the tenant's has ended: who waits may start."""
        self._give_back(tenant)
        if self._lines:
            self.advance()

    def advance(self) -> None:
        """Start what may start, one of each tenant in turn."""
        lines = list(self._lines)
        while lines:
            lines = [tenant for tenant in lines if self._advance(tenant)]

    def usage(self) -> PlaceUsage:
        left = self._room - self._waiting
        lines = {tenant: len(line) for tenant, line in self._lines.copy().items()}
        return PlaceUsage(tuple(lines), tuple(tenant for tenant, waiting in lines.items() if waiting > left))

    def _advance(self, tenant: str) -> bool:
        """Start the first of a line. Returns whether the next one may be tried."""
        line = self._lines[tenant]
        if not self._has_room(tenant) or not line[0].may_start():
            return False
        call = line.popleft()
        self._waiting -= 1
        if not line:
            del self._lines[tenant]
        self._start(tenant, call)
        return bool(line)

    def _start(self, tenant: str, call: Call) -> None:
        self._taken[tenant] += 1
        self._busy += 1
        if not call.start():
            self._give_back(tenant)

    def _give_back(self, tenant: str) -> None:
        self._busy -= 1
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]

    def _has_room(self, tenant: str) -> bool:
        free = self._total - self._busy
        return self._taken[tenant] < free / 2 if self._shared else free > 0

"""Look-ups of host names, shared fairly: a tenant's names that hang must not keep another's from being resolved.

Threads ask the system's resolver. A thread that waits for an answer cannot be stopped: it is lost until the resolver
gives up. So no tenant, and no zone of names, may have more than its share of the threads. A look-up that gets no
thread soon, or no answer soon, fails and says so. Answers are kept for all tenants. Only its own tenant waits for a
look-up that is under way, since other tenants would share its wait and its failure.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
#: Threads of a process for look-ups, and how many of them one tenant, or the names of one zone, may have at once.
MAX_LOOK_UPS = 128
MAX_OF_ONE = 8
#: How many answers a process keeps, and for how long.
MAX_ANSWERS = 4096
KEEP_SECONDS = 10.0

#: The tenant of the present call; set by ``AsyncRunner`` around each call.
tenant: ContextVar[str] = ContextVar("carillon_tenant", default="")


class LookUpStuck(OSError):
    """A name was not resolved in time, or was not looked up because too many look-ups hang already."""


class Answers:
    """The answers to the look-ups of one event loop, kept for a while. Each answer is a list."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, list[Any]]] = {}
        self._under_way: dict[tuple[str, Hashable], asyncio.Future[list[Any]]] = {}

    async def get(self, key: Hashable, look_up: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        """The answer of ``look_up`` for ``key``, found now or lately. Raises its errors; failures are not kept."""
        until, found = self._kept.get(key, (0.0, []))
        if until > asyncio.get_running_loop().time():
            found.append(found.pop(0))  # so that the next one begins with another address
            return list(found)
        mine = (tenant.get(), key)
        asking = self._under_way.get(mine)
        if asking is None:
            asking = self._under_way[mine] = asyncio.ensure_future(look_up())
            asking.add_done_callback(partial(self._ended, mine))
        return list(await asyncio.shield(asking))

    def _ended(self, mine: tuple[str, Hashable], asked: "asyncio.Future[list[Any]]") -> None:
        del self._under_way[mine]
        if asked.cancelled() or asked.exception() or not asked.result():
            return
        self._kept.pop(mine[1], None)
        if len(self._kept) >= MAX_ANSWERS:
            del self._kept[next(iter(self._kept))]
        self._kept[mine[1]] = (asyncio.get_running_loop().time() + KEEP_SECONDS, list(asked.result()))


class LookUps:
    """Bounds the look-ups of one event loop. ``seconds``: how long one may wait for its share and for its answer.

    A tenant gets another thread while it has fewer than ``of_one``, and fewer than a quarter of the number of free
    threads. So some are left for the next tenant. A zone has at most ``of_one`` threads over all tenants. A tenant's
    first look-up may pass the zone's bound while more than half of all threads are free, since the names that hang may
    be another tenant's (a zone that is delegated to many).
    """

    def __init__(self, *, seconds: float, total: int = MAX_LOOK_UPS, of_one: int = MAX_OF_ONE) -> None:
        self._seconds = seconds
        self._total = total
        self._of_one = of_one
        self._of_tenants: Counter[str] = Counter()
        self._of_zones: Counter[str] = Counter()
        self._all = 0
        self._changed = asyncio.Condition()

    async def run(self, host: str, look_up: Callable[[], Awaitable[T]]) -> T:
        """The answer of ``look_up``, which asks for ``host``. Raises ``LookUpStuck``, and the errors of ``look_up``.

        The share is given back when the thread has ended, even if the caller gave the look-up up long before.
        """
        whose, zone = tenant.get(), zone_of(host)
        try:
            async with asyncio.timeout(self._seconds), self._changed:
                await self._changed.wait_for(lambda: not self._full(whose, zone))
        except TimeoutError:
            raise LookUpStuck(
                f"{host} was not looked up: too many look-ups of {self._full(whose, zone) or 'others'} hang. "
                "Check the names that its webhooks call"
            ) from None
        self._count(whose, zone, 1)
        running = asyncio.ensure_future(look_up())
        running.add_done_callback(lambda ended: self._ended(ended, whose, zone))
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._seconds)
        except TimeoutError:
            raise LookUpStuck(f"no answer for {host} within {self._seconds:g} s") from None

    def _full(self, whose: str, zone: str) -> str:
        """The tenant, process or zone that has no room for one more look-up; empty: there is room."""
        running, free = self._of_tenants[whose], self._total - self._all
        if running >= min(self._of_one, free / 4):
            return f"tenant {whose}" if running else "this worker process"
        first = not running and free > self._total / 2
        return "" if first or self._of_zones[zone] < self._of_one else f"zone {zone}"

    def _count(self, whose: str, zone: str, change: int) -> None:
        self._all += change
        for running, key in ((self._of_tenants, whose), (self._of_zones, zone)):
            running[key] += change
            if not running[key]:
                del running[key]

    def _ended(self, ended: "asyncio.Future[T]", whose: str, zone: str) -> None:
        self._count(whose, zone, -1)
        if not ended.cancelled():
            ended.exception()  # the waiting call may be gone
        self._wake = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def zone_of(host: str) -> str:
    """The part of a name that one owner is likely to hold: ``a.b.example.com`` and ``example.com`` are of one zone.

    For ``example.co.uk`` the zone has three labels, as for other names whose last two labels are that short.
    """
    labels = host.lower().rstrip(".").split(".")
    short = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) in (2, 3)
    return ".".join(labels[-3 if short else -2 :])

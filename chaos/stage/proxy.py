"""A TCP proxy for one link, from one process to one server: traffic is passed on late, held back, or cut off.

A black hole holds bytes back and loses none, as TCP would: after the heal they arrive, unless the link was also reset.
All proxies of a run share one event loop in a thread of its own.
"""

import asyncio
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from chaos.stage.outside import hasten

#: The most chunks held up in one direction of a connection.
CHUNKS = 64
DYING_SECONDS = 3.0
#: Opens a connection to the server, by a protocol.
Connect = Callable[[Callable[[], asyncio.Protocol]], Awaitable[None]]


@dataclass
class Weather:
    """The effect of a link on its traffic. Times in seconds; ``up`` is from the process to the server.

    ``dying``: this share of its connections, present and future, is reset within ``DYING_SECONDS``.
    """

    delay: float = 0.0
    jitter: float = 0.0
    hole_up: bool = False
    hole_down: bool = False
    refuse: bool = False
    dying: float = 0.0


class Proxy:
    """One link. ``connect`` opens a connection to the server; ``weather`` may be changed at any time by ``set``."""

    def __init__(self, name: str, connect: Connect, *, rng: random.Random) -> None:
        self.name = name
        self.port = 0
        self.weather = Weather()
        self.rng = rng
        self._connect = connect
        self._connections: set[_Connection] = set()
        self._dooms: set[asyncio.TimerHandle] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; the port stays the same over ``refuse``."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self).client, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def set(self, weather: Weather) -> None:
        """Change the weather for present and future connections."""
        self.weather = weather
        for doom in self._dooms:
            doom.cancel()
        self._dooms.clear()
        for connection in list(self._connections):
            connection.go_on()
            self._doom_some(connection)
        if weather.refuse and self._server:
            self._server.close()
            self._server = None
            self.cut()
        elif not weather.refuse and self._server is None:
            await self.open()

    def cut(self) -> None:
        """Reset every connection."""
        for connection in list(self._connections):
            connection.reset()

    async def begin(self, connection: "_Connection") -> None:
        """Connect to the server for a client that has connected."""
        try:
            await self._connect(lambda: connection.server)
        except OSError:
            connection.reset()
            return
        if connection.is_over():
            return
        self._connections.add(connection)
        self._doom_some(connection)

    def forget(self, connection: "_Connection") -> None:
        """Note that the connection has ended."""
        self._connections.discard(connection)

    def _doom_some(self, connection: "_Connection") -> None:
        """Decide whether this connection is one of those that die."""
        if self.rng.random() < self.weather.dying:
            loop = asyncio.get_running_loop()
            self._dooms.add(loop.call_later(self.rng.uniform(0, DYING_SECONDS), connection.reset))


class _Connection:
    """A client's connection and the one to the server that stands for it. It ends when either side ends."""

    def __init__(self, link: Proxy) -> None:
        self.link = link
        self.client, self.server = _End(self, up=True), _End(self, up=False)
        self.client.other, self.server.other = self.server, self.client

    def is_over(self) -> bool:
        """Whether the client has left before the server was reached."""
        return self.client.transport is None or self.client.transport.is_closing()

    def reset(self) -> None:
        for end in (self.client, self.server):
            if end.transport is not None:
                _reset(end.transport)

    def close(self) -> None:
        """Close both ends; bytes that were passed on are still sent."""
        self.link.forget(self)
        for end in (self.client, self.server):
            end.drop()

    def go_on(self) -> None:
        self.client.go_on()
        self.server.go_on()


class _End(asyncio.Protocol):
    """One end of a connection: passes on to the other end the bytes that it reads. ``up``: the client's end.

    A delay holds up each chunk for that long, and not longer because of other chunks. A chunk that need not wait is
    passed on at once, without a task: with two tasks a direction, links took twice as much of the processors that the
    cluster under test needs.
    """

    other: "_End"

    def __init__(self, connection: _Connection, *, up: bool) -> None:
        self.transport: asyncio.Transport | None = None
        self._connection, self._up = connection, up
        #: When each chunk must be passed on; an empty one is the end.
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._is_full = self._is_held = self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._up:
            self._beginning = asyncio.ensure_future(self._connection.link.begin(self._connection))
        elif self._connection.is_over():
            transport.abort()
        else:
            self.other.go_on()

    def data_received(self, data: bytes) -> None:
        loop, weather = asyncio.get_running_loop(), self._connection.link.weather
        delay = (
            max(0.0, self._connection.link.rng.gauss(weather.delay, weather.jitter)) if weather.delay else 0.0
        )
        if not delay and not self._on_the_way and self._may_pass():
            self._pass_on(data)
            return
        self._on_the_way.append((loop.time() + delay, data))
        if len(self._on_the_way) >= CHUNKS:
            self._is_held = True
            self._read_or_not()
        self.go_on()

    def eof_received(self) -> bool:
        self.data_received(b"")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._has_ended:
            self.data_received(b"")

    def pause_writing(self) -> None:
        self.other.fill(True)

    def resume_writing(self) -> None:
        self.other.fill(False)

    def fill(self, is_full: bool) -> None:
        """Note whether the other end has no more room."""
        self._is_full = is_full
        self._read_or_not()

    def go_on(self) -> None:
        """Pass on the chunks that are due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._on_the_way and self._may_pass():
            due, data = self._on_the_way[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.go_on)
                return
            self._on_the_way.popleft()
            self._pass_on(data)
        if self._is_held and len(self._on_the_way) < CHUNKS:
            self._is_held = False
            self._read_or_not()

    def drop(self) -> None:
        self._has_ended = True
        self._on_the_way.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self.transport.close()

    def _may_pass(self) -> bool:
        """Whether the other end is connected, and this direction leads into no black hole."""
        weather = self._connection.link.weather
        return self.other.transport is not None and not (weather.hole_up if self._up else weather.hole_down)

    def _pass_on(self, data: bytes) -> None:
        assert self.other.transport is not None
        if data:
            self.other.transport.write(data)
        else:
            self._connection.close()

    def _read_or_not(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._is_full or self._is_held:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


def _reset(transport: asyncio.Transport) -> None:
    """Close with RST instead of FIN: TCP does so if the linger time is 0."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0 and sock.family == socket.AF_INET:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Proxies:
    """All links of a run, and the thread they live in. A context manager; ``add`` returns the link's port."""

    def __init__(self, *, rng: random.Random) -> None:
        self._rng = rng
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxies", daemon=True)
        self._servers: dict[str, str | int] = {}
        self.links: dict[tuple[str, str], Proxy] = {}

    def __enter__(self) -> "Proxies":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        hasten()
        self._loop.run_forever()

    def add(self, process: str, server: str, address: str | int) -> int:
        """A link from ``process`` to the server behind a Unix socket or a port, which need not be there yet."""
        self.point(server, address)
        link = Proxy(f"{process}-{server}", partial(self._connect, server), rng=self._rng)
        self._do(link.open())
        self.links[process, server] = link
        return link.port

    async def _connect(self, server: str, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop, address = asyncio.get_running_loop(), self._servers[server]
        if isinstance(address, int):
            await loop.create_connection(protocol, "127.0.0.1", address)
        else:
            await loop.create_unix_connection(protocol, address)

    def point(self, server: str, address: str | int) -> None:
        """Let new connections over every link to ``server`` go to another socket or port."""
        self._servers[server] = address

    def set(self, process: str, server: str, weather: Weather) -> None:
        """Change one link's weather."""
        self._do(self.links[process, server].set(weather))

    def cut(self, process: str, server: str) -> None:
        """Reset one link's connections."""
        self._loop.call_soon_threadsafe(self.links[process, server].cut)

    async def _close(self) -> None:
        """End every connection with its tasks, so that the loop ends without any left."""
        for link in self.links.values():
            await link.set(Weather(refuse=True))
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            _, rest = await asyncio.wait(rest, timeout=1)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _do(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

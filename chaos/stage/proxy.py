"""A TCP proxy for one link, from one process to one server: what passes is passed on late, held back, or cut off.

A black hole holds bytes back and loses none, as TCP would: after the heal they arrive, unless the link was also reset.
All proxies of a run share one event loop in a thread of its own.
"""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chaos.stage.outside import hasten

CHUNK = 65_536
#: Held up of one direction of a connection at most.
CHUNKS = 256
DYING_SECONDS = 3.0


@dataclass
class Weather:
    """What a link does to its traffic. Seconds; ``up`` is from the process to the server.

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

    def __init__(self, name: str, connect: Callable[[], Any], *, rng: random.Random) -> None:
        self.name = name
        self.port = 0
        self.weather = Weather()
        self._connect = connect
        self._rng = rng
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._dooms: set[asyncio.TimerHandle] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; the port stays the same over ``refuse``."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def set(self, weather: Weather) -> None:
        """Change the weather for present and future connections."""
        self.weather = weather
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for doom in self._dooms:
            doom.cancel()
        self._dooms.clear()
        for client in self._clients:
            self._doom_some(client)
        if weather.refuse and self._server:
            self._server.close()
            self._server = None
            self.cut()
        elif not weather.refuse and self._server is None:
            await self.open()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            _reset(writer)

    def _doom_some(self, client: asyncio.StreamWriter) -> None:
        """Decide whether this connection is one of those that die."""
        if self._rng.random() < self.weather.dying:
            loop = asyncio.get_running_loop()
            self._dooms.add(loop.call_later(self._rng.uniform(0, DYING_SECONDS), _reset, client))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await self._connect()
        except OSError:
            _reset(writer)
            return
        pair = {writer, up_writer}
        self._writers |= pair
        self._clients.add(writer)
        self._doom_some(writer)
        try:
            flows = (
                asyncio.ensure_future(self._flow(reader, up_writer, up=True)),
                asyncio.ensure_future(self._flow(up_reader, writer, up=False)),
            )
            await asyncio.wait(flows, return_when=asyncio.FIRST_COMPLETED)
            for flow in flows:
                flow.cancel()
            await asyncio.gather(*flows, return_exceptions=True)
        finally:
            self._writers -= pair
            self._clients.discard(writer)
            for each in pair:
                each.close()

    async def _flow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        """Pass on until either side ends. A delay holds up each chunk for as long, and none the longer for others."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS)
        taking = asyncio.ensure_future(self._take(reader, on_the_way))
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):
                while True:
                    due, data = await on_the_way.get()
                    if (wait := due - loop.time()) > 0:
                        await asyncio.sleep(wait)
                    while self.weather.hole_up if up else self.weather.hole_down:
                        await self._changed.wait()
                    if not data:
                        return
                    writer.write(data)
                    await writer.drain()
        finally:
            taking.cancel()

    async def _take(
        self, reader: asyncio.StreamReader, on_the_way: "asyncio.Queue[tuple[float, bytes]]"
    ) -> None:
        """Note when each chunk is to be passed on; an empty one is the end."""
        loop, data = asyncio.get_running_loop(), b"."
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            weather = self.weather
            delay = max(0.0, self._rng.gauss(weather.delay, weather.jitter)) if weather.delay else 0.0
            await on_the_way.put((loop.time() + delay, data))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN, which is what a lingering of no time means to TCP."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0 and sock.family == socket.AF_INET:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _connected(address: str | int) -> Any:
    if isinstance(address, int):
        return await asyncio.open_connection("127.0.0.1", address)
    return await asyncio.open_unix_connection(address)


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
        link = Proxy(f"{process}-{server}", lambda: _connected(self._servers[server]), rng=self._rng)
        self._do(link.open())
        self.links[process, server] = link
        return link.port

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

"""Keeps embedded servers alive while their clients run: a server that dies is started again, like any other child.

Threads watch the servers, because a start waits for crash recovery while the clients' output must go on. Clients are
left alone: they wait and connect again by themselves. Events are reported through a socket, for the owner's loop.
"""

import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from scheduler_project.embedded.server import Cancelled, EmbeddedError, EmbeddedServer

LOOK_EVERY = timedelta(milliseconds=100)
FIRST_BACKOFF = timedelta(seconds=1)
MAX_BACKOFF = timedelta(seconds=30)


class ServerWatch:
    """Watches ``servers`` for the length of a ``with`` block. ``fileno`` is readable when there is ``news``."""

    def __init__(self, servers: Sequence[EmbeddedServer]) -> None:
        self._servers = servers
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(server,), name=f"watch {server.name}", daemon=True)
            for server in servers
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Start no server any more; afterwards the servers may be stopped."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._receiver.close()
        self._sender.close()

    def fileno(self) -> int:
        return self._receiver.fileno()

    def news(self) -> list[str]:
        """Events since the last call, one line each."""
        try:
            return self._receiver.recv(65_536).decode().splitlines()
        except BlockingIOError:
            return []

    @property
    def pids(self) -> dict[str, int]:
        """Main process of each server that runs, by name."""
        return {server.name: pid for server in self._servers if (pid := server.pid) is not None}

    def _keep(self, server: EmbeddedServer) -> None:
        while not self._ending.wait(LOOK_EVERY.total_seconds()):
            if not server.alive:
                self._revive(server)

    def _revive(self, server: EmbeddedServer) -> None:
        died_at, backoff = time.monotonic(), FIRST_BACKOFF
        self._tell(f"{server.name} died, starting again")
        while not self._ending.is_set():
            try:
                server.revive(cancelled=self._ending.is_set)
            except Cancelled:
                return
            except EmbeddedError as error:
                self._tell(f"{error}\nStarting {server.name} again in {backoff.total_seconds():g} s")
                self._ending.wait(backoff.total_seconds())
                backoff = min(backoff * 2, MAX_BACKOFF)
            else:
                self._tell(f"{server.name} answers again after {time.monotonic() - died_at:.1f} s")
                return

    def _tell(self, text: str) -> None:
        self._sender.sendall(f"{text}\n".encode())

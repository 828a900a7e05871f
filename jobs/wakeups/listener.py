"""Hearing wake-ups: a thread that waits on its channel and signals over a socket the beat can ``select`` on.

Any step that may block (resolving, connecting, TLS, a server that does not answer) blocks only the thread: a beat whose
Redis is dead turns as fast as ever. The thread connects again by itself, once a second. It signals after each connect
too, because of messages sent while it was away.
"""

import socket
import threading

from jobs.telemetry import Outage
from jobs.wakeups.channel import FAILURES, Channel, Kind, our_channel

#: A server silent for this long is pinged; after as long again without an answer the connection counts as dead.
QUIET_SECONDS = 5.0
RECONNECT_SECONDS = 1.0


class Listener:
    """Subscribes on behalf of one sleeper. ``select`` on it; readable means that ``heard`` will say True."""

    def __init__(self, *, of: Kind = "wake") -> None:
        self._of = of
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._outage = Outage("wake-ups cannot be heard")

    def fileno(self) -> int:
        return self._reader.fileno()

    def listen(self) -> None:
        """Begin to listen, in a thread of its own; no effect if it listens already. Returns at once."""
        if self._thread is None and (channel := our_channel(self._of)):
            self._thread = threading.Thread(target=self._run, args=(channel,), name="wake-ups", daemon=True)
            self._thread.start()

    def heard(self) -> bool:
        """Whether there was a wake-up since the last call. Does not wait."""
        heard = False
        while True:
            try:
                heard = bool(self._reader.recv(4096))
            except BlockingIOError:
                return heard
            if not heard:
                return False  # closed

    def close(self) -> None:
        """Listen no more; the thread is left to end by itself. May be repeated."""
        self._closed.set()
        self._writer.close()
        self._reader.close()

    def _run(self, channel: Channel) -> None:
        while not self._closed.is_set():
            try:
                for begun in channel.hear(self._closed, quiet_seconds=QUIET_SECONDS):
                    if begun:
                        self._outage.over()
                    self._notify()
            except FAILURES as error:
                if not self._closed.is_set():
                    self._outage.failed(error)
            self._closed.wait(RECONNECT_SECONDS)

    def _notify(self) -> None:
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            return  # full of signals that were not read: the beat is busy

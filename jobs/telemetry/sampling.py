"""Lines about events that may be too many for a log: some are written, and no event is lost in the sum."""

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
MAX_LINES_A_SECOND = 10
SECOND = 1.0


class Sampled(Generic[T]):
    """Hands noted events to ``write(kind, what, count)``, at most ``MAX_LINES_A_SECOND`` times a second.

    ``count`` says how many events the line stands for: its own, and those of its kind that were noted since the last
    line and had none. While there is room each event is written at once, with a count of 1. Events that are left when a
    second ends are written then, in one line a kind, by a thread that lives until then. So counts add up even if no
    event follows. A process that is killed loses the events of its last second.

    There may be fewer than ``MAX_LINES_A_SECOND`` kinds. One per process, as a lock does not outlive a fork.
    """

    def __init__(self, write: Callable[[str, T, int], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._began_at = 0.0
        self._written = 0
        self._left: dict[str, tuple[T, int]] = {}
        self._timer: threading.Timer | None = None
        self._pid = os.getpid()
        atexit.register(self.flush)

    def note(self, kind: str, what: T) -> None:
        """Note one event of a kind. From any thread."""
        with self._lock:
            now = time.monotonic()
            if now >= self._began_at + SECOND and not self._left:
                self._began_at, self._written = now, 0
            has_room = self._written < MAX_LINES_A_SECOND
            if has_room:
                self._written += 1
            else:
                _, count = self._left.get(kind, (what, 0))
                self._left[kind] = (what, count + 1)
                if self._timer is None:
                    self._start_timer(self._began_at + SECOND - now)
        if has_room:
            self._write(kind, what, 1)

    def flush(self) -> None:
        """Write the events that are left now: the second, or the process, is about to end."""
        if self._pid != os.getpid():  # the parent itself writes the events that it has left
            return
        with self._lock:
            left, self._left = self._left, {}
            self._began_at, self._written = time.monotonic(), len(left)
            self._timer = None
        for kind, (what, count) in left.items():
            self._write(kind, what, count)

    def _start_timer(self, seconds: float) -> None:
        self._timer = timer = threading.Timer(max(0.0, seconds), self.flush)
        timer.daemon = True
        timer.name = "carillon-sampled-lines"
        try:
            timer.start()
        except RuntimeError:  # no thread can be had: the next event that is left tries again
            self._timer = None

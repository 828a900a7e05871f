"""Lines about what may happen more often than a log can take: some are written, and none is lost in the sum."""

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
    """Hands what is noted to ``write(kind, what, count)``, at most ``MAX_LINES_A_SECOND`` times a second.

    ``count`` says how many the line stands for: itself, and those of its kind that were noted since the last line and
    had none. While there is room each is written at once, with a count of 1. What is left when a second ends is written
    then, in one line a kind, by a thread that lives for so long: so counts add up without anything that follows. A
    process that is killed loses those of its last second.

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
        """One of a kind. From any thread."""
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
        """Write what is left now: the process is about to end."""
        if self._pid != os.getpid():  # what a parent has left is the parent's to write
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
        except RuntimeError:  # no thread can be had: the next that is left tries again
            self._timer = None

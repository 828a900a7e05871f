"""The bell: rings in every thread of a web process that waits for pull work, once dispatch has queued some.

One subscription a process, made when somebody first waits. Nothing depends on it: who waits looks again by himself
every ``POLL_SECONDS``.
"""

import os
import threading
from functools import cache
from typing import Any

from jobs.wakeups.listener import Listener

#: A waiting request looks at least this often, with or without a notification.
POLL_SECONDS = 2.0
#: It looks at most this often: a busy tenant must not make all requests look at every dispatch.
LOOK_SECONDS = 0.1


class Bell(Listener):
    """A listener for any number of waiting threads."""

    def __init__(self) -> None:
        super().__init__(of="pull")
        self._rung = threading.Condition()
        self.rings = 0

    def wait(self, *, heard: int, seconds: float) -> int:
        """Return when it has rung more often than ``heard``, or after ``seconds``. Returns how often it has."""
        self.listen()
        with self._rung:
            self._rung.wait_for(lambda: self.rings != heard, timeout=seconds)
            return self.rings

    def _ring(self, message: dict[str, Any]) -> None:
        super()._ring(message)
        with self._rung:
            self.rings += 1
            self._rung.notify_all()


@cache
def the_bell() -> Bell:
    """This process's."""
    return Bell()


# Threads do not outlive a fork: the child makes its own.
os.register_at_fork(after_in_child=the_bell.cache_clear)

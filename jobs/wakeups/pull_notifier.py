"""The pull notifier wakes every thread of a web process that waits for pull work, once dispatch has queued some.

Each process subscribes once, when its first thread waits. Nothing depends on it: a waiting thread also looks by itself
every ``POLL_SECONDS`` or so.
"""

import os
import threading
from functools import cache

from jobs.wakeups.listener import Listener

#: A waiting request looks this often, with or without a notification, unless another has just looked for the same.
POLL_SECONDS = 2.0
#: It looks at most this often: a busy tenant must not make all requests look at every dispatch.
LOOK_SECONDS = 0.1


class PullNotifier(Listener):
    """A listener for any number of waiting threads."""

    def __init__(self) -> None:
        super().__init__(of="pull")
        self._changed = threading.Condition()
        self.notified = 0

    def wait(self, *, heard: int, seconds: float) -> int:
        """Return after more notifications than ``heard``, or after ``seconds``. Returns how many there were."""
        self.listen()
        with self._changed:
            self._changed.wait_for(lambda: self.notified != heard, timeout=seconds)
            return self.notified

    def _notify(self) -> None:
        super()._notify()
        with self._changed:
            self.notified += 1
            self._changed.notify_all()


@cache
def the_pull_notifier() -> PullNotifier:
    """This process's notifier."""
    return PullNotifier()


# Threads do not outlive a fork: the child makes its own.
os.register_at_fork(after_in_child=the_pull_notifier.cache_clear)

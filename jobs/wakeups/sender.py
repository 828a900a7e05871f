"""Sending a wake-up: after the commit, bounded in time, and never the caller's trouble."""

import os
import threading
import time
from collections import Counter
from datetime import timedelta
from functools import cache

from django.db import connection, transaction

from jobs.conf import engine_settings
from jobs.telemetry import Outage
from jobs.wakeups.channel import COALESCE_SECONDS, FAILURES, Channel, Publisher, our_channel

#: No step of sending (connecting, publishing) takes longer; Redis answers within a millisecond or is in trouble.
TIMEOUT_SECONDS = 0.1
#: After a failure nothing is sent for this long, or for so many times the failure's own time if that is longer. However
#: a Redis that is away makes callers wait, it takes at most a twentieth of their time.
PAUSE_SECONDS, PAUSE_FACTOR = 1.0, 20


def wake_beats(*, due_in: timedelta = timedelta()) -> None:
    """Wake the beats for work that is due in ``due_in``, once the present transaction is committed (outside one, now).

    Nothing is sent if the beats look by themselves before that, or if the transaction is rolled back. Never raises. May
    be repeated, as often as you like: a burst is few messages.
    """
    if due_in >= timedelta(milliseconds=engine_settings().max_sleep_ms):
        return
    channel = our_channel()
    if channel is None:
        return
    send = _sender(channel).send
    if connection.in_atomic_block:
        transaction.on_commit(send, robust=True)
    else:  # at once, and over Redis without the database, which on_commit would connect to
        send()


def wake_pull_workers() -> None:
    """Tell requests that wait for pull work that some was queued. Dispatch calls it after its commit. Never raises."""
    channel = our_channel("pull")
    if channel is not None:
        _sender(channel).send()


class Sender:
    """Publishes wake-ups on one channel; may be used by several threads.

    ``counts``: ``sent``, ``spared`` (another one just before says the same), ``lost`` (the server was away).
    """

    def __init__(self, channel: Channel) -> None:
        self._client: Publisher = channel.connect(timeout_seconds=TIMEOUT_SECONDS)
        self._channel = channel.name
        self._sending = threading.Lock()
        self._wanted = False
        self._silent_until = 0.0
        self._away = False
        self._outage = Outage("wake-ups cannot be sent")
        self.counts: Counter[str] = Counter()

    def send(self) -> None:
        """Publish, unless one was published just before. The work to find was committed before this call.

        While one thread publishes, the others leave it to that one to publish once more.
        """
        if time.monotonic() < self._silent_until:
            self.counts["lost" if self._away else "spared"] += 1
            return
        self._wanted = True
        while self._wanted and self._sending.acquire(blocking=False):
            try:
                self._wanted = False
                self._publish()
            finally:
                self._sending.release()

    def _publish(self) -> None:
        began = time.monotonic()
        # Counted from before the message leaves: a sender that keeps silent now has committed before the message can
        # arrive and COALESCE_SECONDS pass.
        self._silent_until = began + COALESCE_SECONDS
        try:
            self._client.publish(self._channel, b"")
            self._note_sent()
        except FAILURES as error:
            self._wanted = False
            self._note_lost(error, began=began)

    def _note_sent(self) -> None:
        self.counts["sent"] += 1
        self._away = False
        self._outage.over(lost=self.counts["lost"])

    def _note_lost(self, error: Exception, *, began: float) -> None:
        self.counts["lost"] += 1
        now = time.monotonic()
        self._silent_until = now + max(PAUSE_SECONDS, PAUSE_FACTOR * (now - began))
        self._away = True
        self._outage.failed(error)


@cache
def _sender(channel: Channel) -> Sender:
    return Sender(channel)


# A lock that another thread held at the fork would stay locked in the child.
os.register_at_fork(after_in_child=_sender.cache_clear)

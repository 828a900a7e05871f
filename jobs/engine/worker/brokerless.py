"""Working without the broker: messages are taken from Postgres while the dispatcher leaves them there (ADR 13).

These messages have the same content as those of the broker, and their triggers are claimed by the same ``(id, fence)``.
Nothing else about a firing changes, and a message that is in both places is executed once. A process looks with as many
threads as it may run messages at once. Each thread takes a slot that Celery's messages take too, so a process never
does more at a time than it was told to. While the table is empty, each thread looks once a second.
"""

import random
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from django.db import close_old_connections

from jobs.store import db
from jobs.store.dispatch import messages
from jobs.telemetry import get_logger

log = get_logger()
#: The longest pause between looks of an idle thread. After a message it looks again at once, then often for a while.
LOOK_SECONDS = 1.0
SOON_SECONDS = 0.05
SOON_LOOKS = 100

Perform = Callable[[str, Any], object]


class Brokerless:
    """Takes messages of ``job_types`` and hands ``(job type, items)`` to ``perform``, in up to ``slots`` threads."""

    def __init__(self, *, job_types: Collection[str], slots: int, perform: Perform) -> None:
        self._job_types = job_types
        self._slots = slots
        self._perform = perform
        self._free = threading.Semaphore(slots)
        self._stopping = threading.Event()

    def start(self) -> None:
        """Look for messages from now on. Once per process, after a fork."""
        for number in range(self._slots):
            threading.Thread(target=self._run, name=f"carillon-brokerless-{number}", daemon=True).start()

    def stop(self) -> None:
        """Take no more messages, and return when all taken messages have been performed."""
        self._stopping.set()
        for _ in range(self._slots):
            self._free.acquire()

    def slot(self) -> AbstractContextManager[Any]:
        """Use ``with brokerless.slot():`` around other code that performs messages in this process."""
        return self._free

    def turn(self) -> bool:
        """Take a message, if there is one and a slot for it, and perform it. Returns whether there was."""
        if not self._free.acquire(blocking=False):
            return False
        try:
            message = None if self._stopping.is_set() else messages.take(self._job_types)
            if message is not None:
                self._perform(message.job_type, message.items)
            return message is not None
        finally:
            self._free.release()

    def _run(self) -> None:
        soon = 0
        while not self._stopping.is_set():
            soon = SOON_LOOKS if self._quietly() else max(0, soon - 1)
            if soon < SOON_LOOKS:
                self._stopping.wait(SOON_SECONDS if soon else LOOK_SECONDS * random.uniform(0.7, 1.0))  # noqa: S311
        db.disconnect()

    def _quietly(self) -> bool:
        """A turn that survives any error in it."""
        try:
            close_old_connections()
            return self.turn()
        except db.DISCONNECTED as error:
            db.note_away(error, what="brokerless")
            db.disconnect()
        except Exception:  # one bad message must not end the thread every later one relies on
            log.exception("brokerless failed")
        return False

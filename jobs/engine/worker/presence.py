"""Presence: a worker says every few seconds that it is there and which queues it takes from.

So that "why does it wait?" can answer "no worker takes from its queue" without asking all of them over the broker. A
thread of the worker's main process does it, over a connection that is open for an instant: children forked later
inherit none. A worker that loses its broker, is frozen or killed falls silent; one that is told to stop leaves. The
thread compares the machine's clock with the database's, too.
"""

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from jobs.store import db
from jobs.store.insight import workers
from jobs.store.insight.clocks import Drift
from jobs.telemetry import get_logger

log = get_logger()
ANNOUNCED_SECONDS = workers.ANNOUNCED_EVERY.total_seconds()


class Standing(NamedTuple):
    """What a worker takes from, with how many processes or threads."""

    queues: Sequence[str]
    concurrency: int


class Presence:
    """Announces ``name`` until ``leave``. ``standing`` gives None while the worker cannot take messages."""

    def __init__(self, *, name: str, standing: Callable[[], Standing | None]) -> None:
        self._name = name
        self._standing = standing
        self._drift = Drift(name=name)
        # Its put may be called by a signal's handler, whatever it interrupts; an Event's set may not.
        self._leaving: SimpleQueue[bool] = SimpleQueue()

    def start(self) -> None:
        threading.Thread(target=self._run, name="carillon-presence", daemon=True).start()

    def leave(self) -> None:
        """Take this worker off the list, soon. May be called in a signal's handler, and repeated."""
        self._leaving.put(True)

    def _run(self) -> None:
        while True:
            self._quietly(self._announce)
            try:
                self._leaving.get(timeout=ANNOUNCED_SECONDS)
            except Empty:
                continue
            self._quietly(lambda: workers.leave(name=self._name))
            return

    def _announce(self) -> None:
        standing = self._standing()
        if standing is not None:
            workers.announce(name=self._name, queues=standing.queues, concurrency=standing.concurrency)
        self._drift.measure_if_due()

    @staticmethod
    def _quietly(action: Callable[[], None]) -> None:
        """A database that is away is tried again at the next turn."""
        try:
            action()
        except db.DISCONNECTED as error:
            log.warning("database away", what="presence", error=str(error).strip().splitlines()[:1])
        finally:
            db.disconnect()

"""Presence: a worker says every few seconds that it is there and which queues it takes from.

So "why does it wait?" can answer "no worker takes from its queue" without asking all workers over the broker. A thread
of the worker's main process does it, over a connection that is open only for an instant: children forked later inherit
none. A worker that loses its broker, is frozen or killed falls silent. A worker that is told to stop leaves. The thread
compares the machine's clock with the database's, too.

Two workers of one name are a mistake (``-n``): Celery takes them for one, and remote control reaches either. A worker
that finds that another has announced its name since says so in the log. It is listed by its process from then on.
"""

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from jobs.store import db
from jobs.store.insight import workers
from jobs.store.insight.clocks import Drift
from jobs.telemetry import get_logger

log = get_logger()
ANNOUNCED_SECONDS = workers.ANNOUNCED_EVERY.total_seconds()


class WorkerStatus(NamedTuple):
    """The queues a worker takes from, how many processes or threads it has, and how many of these are at work."""

    queues: Sequence[str]
    concurrency: int
    busy: int | None = None


class Presence:
    """Announces ``name`` until ``leave``. ``status`` gives None while the worker cannot take messages."""

    def __init__(self, *, name: str, status: Callable[[], WorkerStatus | None]) -> None:
        self._name = name
        # Process ids are reused, and containers of one image all have the same.
        self._process = f"{os.getpid()}-{secrets.token_hex(3)}"
        self._announced = False
        self._status = status
        self._drift = Drift(name=name)
        # A signal's handler may call its put at any point of the code; it may not call an Event's set.
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
            self._quietly(lambda: workers.leave(name=self._name, process=self._process))
            return

    def _announce(self) -> None:
        status = self._status()
        if status is not None:
            self._announce_as(status)
        self._drift.measure_if_due()

    def _announce_as(self, status: WorkerStatus) -> None:
        say = partial(workers.announce, **status._asdict(), process=self._process)
        other = say(name=self._name)
        if other is not None and self._announced:
            log.warning(
                "two workers of one name",
                worker=self._name,
                processes=[self._process, other],
                remedy="start each with a name of its own: -n webhook@%h, -n default@%h",
            )
            workers.leave(name=self._name, process=self._process)
            self._name = workers.own_name(self._name, self._process)
            say(name=self._name)
        self._announced = True

    @staticmethod
    def _quietly(action: Callable[[], None]) -> None:
        """A database that is away is tried again at the next turn."""
        try:
            action()
        except db.TRANSIENT as error:
            db.note_away(error, what="presence")
        finally:
            db.disconnect()

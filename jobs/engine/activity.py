"""Writes what this process counted (``jobs.activity``) once a second, in a thread with a connection of its own.

A write that fails keeps the counts for the next one; a process that is killed loses those of a second. No statement
waits longer than 50 ms for a row that another process adds to. The connection is given up when nothing has happened
for a while, and before a fork nothing is open: forked processes start a writer of their own.
"""

import atexit
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from jobs.activity import Activity, activity, own
from jobs.store import db
from jobs.store.insight import activity as activity_store
from jobs.telemetry import Outage, get_logger

log = get_logger()
EVERY_SECONDS = 1.0
#: After so many seconds without a count the connection is closed.
IDLE_SECONDS = 30.0
#: A write may take a tenth of the time: with thousands of rows it comes less often.
MAX_SHARE = 0.1
MAX_STATEMENT = timedelta(seconds=1)
#: ``stop`` waits so long for the last write.
STOP_SECONDS = 3.0


class ActivityWriter:
    """One for each process that counts. ``counted``: what it writes, each with the statement that does."""

    def __init__(self, *counted: tuple[Activity[Any], Callable[[Any], None]]) -> None:
        self._counted = counted or ((activity, activity_store.add), (own, activity_store.add_own))
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._idle_seconds = 0.0
        self._outage = Outage("counts not written")

    def start(self) -> None:
        """Write from now on, and once more when the interpreter ends. Once per process, after a fork."""
        atexit.register(self.stop)
        self._thread = threading.Thread(target=self._run, name="carillon-activity", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, if the database lets us, and end. May be repeated."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        rest = EVERY_SECONDS
        try:
            while not self._stopping.wait(rest):
                rest = max(EVERY_SECONDS, self.turn() / MAX_SHARE)
            self.turn()
        finally:
            db.disconnect()

    def turn(self) -> float:
        """Write what was counted since the last turn. Returns the seconds it took. Raises nothing."""
        began = time.monotonic()
        taken: list[tuple[Activity[Any], Callable[[Any], None], Any]] = [
            (counted, add, counted.take()) for counted, add in self._counted
        ]
        if not any(rows for _, _, rows in taken):
            self._rest()
            return 0.0
        self._idle_seconds = 0.0
        failed = False
        for counted, add, rows in taken:
            if rows and (failed or not self._write(add, rows)):
                counted.give_back(rows)
                failed = True
            if dropped := counted.take_dropped():
                log.warning("counts dropped", times=dropped, reason="too many keys to remember")
        if not failed:
            self._outage.over()
        return time.monotonic() - began

    def _write(self, add: Callable[[Any], None], rows: Any) -> bool:
        try:
            db.bound(statements=MAX_STATEMENT)
            add(rows)
        except Exception as error:  # noqa: BLE001 - the end of a thread would go unnoticed
            # A fault of ours is told with where it was.
            self._outage.failed(error, rows_kept=len(rows), exc_info=not isinstance(error, db.TRANSIENT))
            if not isinstance(error, db.StatementFailed):
                db.disconnect()
            return False
        return True

    def _rest(self) -> None:
        self._idle_seconds += EVERY_SECONDS
        if self._idle_seconds >= IDLE_SECONDS:
            db.disconnect()


#: Of this process; what starts it says when it may.
WRITER = ActivityWriter()

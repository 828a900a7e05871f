"""Write this process's counts (``jobs.activity``) once a second, in a thread with a connection of its own.

A write that fails keeps its counts for the next write. A process that is killed loses the counts of a second. No
statement waits longer than 50 ms for a row that another process adds to. The connection is closed when nothing was
counted for a while. No connection is open before a fork: forked processes start a writer of their own.
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
#: Close the connection after this many seconds without a count.
IDLE_SECONDS = 30.0
#: Writes may take a tenth of the time, so writes of thousands of rows come less often.
MAX_SHARE = 0.1
MAX_STATEMENT = timedelta(seconds=1)
#: ``stop`` waits this long for the last write.
STOP_SECONDS = 3.0


class ActivityWriter:
    """One for each process that counts. ``counted``: the counters, each with the function that writes its counts."""

    def __init__(self, *counted: tuple[Activity[Any], Callable[[Any], None]]) -> None:
        self._counted = counted or ((activity, activity_store.add), (own, activity_store.add_own))
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._idle_seconds = 0.0
        self._outage = Outage("counts not written")

    def start(self) -> None:
        """Write from now on, and once more when the interpreter ends. Call it once per process, after a fork."""
        atexit.register(self.stop)
        self._thread = threading.Thread(target=self._run, name="carillon-activity", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write the remaining counts, if the database allows it, and end. May be repeated."""
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
        """Write the counts since the last turn. Returns the seconds it took. Raises nothing."""
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
            # A fault of our own code is logged with its traceback.
            self._outage.failed(error, rows_kept=len(rows), exc_info=not isinstance(error, db.TRANSIENT))
            if not isinstance(error, db.StatementFailed):
                db.disconnect()
            return False
        return True

    def _rest(self) -> None:
        self._idle_seconds += EVERY_SECONDS
        if self._idle_seconds >= IDLE_SECONDS:
            db.disconnect()


#: The writer of this process. The code that starts it decides when.
WRITER = ActivityWriter()

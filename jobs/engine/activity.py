"""Writes what this process counted (``jobs.activity``) once a second, in a thread with a connection of its own.

A write that fails keeps the counts for the next one; a process that is killed loses those of a second. No statement
waits longer than 50 ms for a row that another process adds to. The connection is given up when nothing has happened
for a while, and before a fork nothing is open: forked processes start a writer of their own.
"""

import atexit
import threading
import time
from datetime import timedelta

from jobs.activity import Activity, Rows, activity
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
    """One for each process that counts. ``counted``: what it writes."""

    def __init__(self, counted: Activity = activity) -> None:
        self._counted = counted
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
        rows = self._counted.take()
        if not rows:
            self._rest()
            return 0.0
        self._idle_seconds = 0.0
        try:
            db.bound(statements=MAX_STATEMENT)
            activity_store.add(rows)
        except db.TRANSIENT as error:
            self._keep(rows, error)
            if not isinstance(error, db.StatementFailed):
                db.disconnect()
        except Exception as error:  # noqa: BLE001 - the end of a thread would go unnoticed
            self._keep(rows, error)
            db.disconnect()
        else:
            self._outage.over()
        if dropped := self._counted.take_dropped():
            log.warning("counts dropped", times=dropped, reason="too many tenants and job types to remember")
        return time.monotonic() - began

    def _keep(self, rows: Rows, error: Exception) -> None:
        self._counted.give_back(rows)
        # A fault of ours is told with where it was.
        faulty = not isinstance(error, db.TRANSIENT)
        self._outage.failed(error, rows_kept=len(rows), exc_info=faulty)

    def _rest(self) -> None:
        self._idle_seconds += EVERY_SECONDS
        if self._idle_seconds >= IDLE_SECONDS:
            db.disconnect()


#: Of this process; what starts it says when it may.
WRITER = ActivityWriter()

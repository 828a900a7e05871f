"""Report this process's counts (``jobs.activity``) once a second, in a thread with a connection of its own. The leader
adds up the reports of all processes (``jobs.engine.housekeeper``).

A report that fails keeps its counts for the next one. A process that is killed loses the counts of a second. The
connection is closed when nothing was counted for a while. No connection is open before a fork: forked processes start a
writer of their own.
"""

import atexit
import threading
import time
from datetime import timedelta

from jobs.activity import Activity, Key, OwnKey, activity, own
from jobs.store import db
from jobs.store.insight import activity as activity_store
from jobs.telemetry import Outage, get_logger

log = get_logger()
EVERY_SECONDS = 1.0
#: Close the connection after this many seconds without a count.
IDLE_SECONDS = 30.0
#: Writes may take a tenth of the time, so writes of thousands of counts come less often.
MAX_SHARE = 0.1
MAX_STATEMENT = timedelta(seconds=1)
#: ``stop`` waits this long for the last write.
STOP_SECONDS = 3.0


class ActivityWriter:
    """One for each process that counts. ``counted`` and ``of_itself``: the counters whose counts it reports."""

    def __init__(self, counted: Activity[Key] = activity, of_itself: Activity[OwnKey] = own) -> None:
        self._counted, self._of_itself = counted, of_itself
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
        """Report the counts since the last turn. Returns the seconds it took. Raises nothing."""
        began = time.monotonic()
        rows, own_rows = self._counted.take(), self._of_itself.take()
        for dropped in (self._counted.take_dropped(), self._of_itself.take_dropped()):
            if dropped:
                log.warning("counts dropped", times=dropped, reason="too many keys to remember")
        if not rows and not own_rows:
            self._rest()
            return 0.0
        self._idle_seconds = 0.0
        try:
            db.bound(statements=MAX_STATEMENT)
            activity_store.report(rows, own_rows)
        except Exception as error:  # noqa: BLE001 - the end of a thread would go unnoticed
            # A fault of our own code is logged with its traceback.
            self._outage.failed(error, rows_kept=len(rows), exc_info=not isinstance(error, db.TRANSIENT))
            if not isinstance(error, db.StatementFailed):
                db.disconnect()
            self._counted.give_back(rows)
            self._of_itself.give_back(own_rows)
        else:
            self._outage.over()
        return time.monotonic() - began

    def _rest(self) -> None:
        self._idle_seconds += EVERY_SECONDS
        if self._idle_seconds >= IDLE_SECONDS:
            db.disconnect()


#: The writer of this process. The code that starts it decides when.
WRITER = ActivityWriter()

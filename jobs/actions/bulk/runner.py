"""The thread of a beat that carries operations on, and resumes jobs whose pause is over. It needs no leader: the beat
that takes the row of an operation or a job has it.

It rests between two slices, so that dispatch gets at the tenant and the process at its own work. The modules that do
the work are imported when there is work for the first time: their shapes took a third of a beat's start, and most beats
end without any work.
"""

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from jobs.models import Operation
from jobs.store import db, operations
from jobs.store import jobs as job_store
from jobs.telemetry import get_logger

if TYPE_CHECKING:
    from jobs.actions.bulk.operations import Select

log = get_logger()
#: If there is nothing to do, it looks again after this long.
IDLE_SECONDS = 1.0
#: If an operation keeps a pace, it looks again when the next item falls due, but no sooner than this.
PACED_SECONDS = 0.2
#: The longest that the database may take for one of its statements, under the tenant's lock.
MAX_STATEMENT = timedelta(seconds=10)
#: After a slice it rests for the slice's duration times this.
REST = 0.5


class Runner:
    """Advances operations until the process ends; being killed in the middle of a slice only undoes that slice."""

    def __init__(self, select: "Select") -> None:
        self._select = select

    def start(self) -> None:
        threading.Thread(target=self._run, name="carillon-operations", daemon=True).start()

    def _run(self) -> None:
        while True:
            # A failure of one must not cost the other its turn, nor end the thread: nothing would notice its end.
            try:
                rest = self.resume()
            except Exception:
                log.exception("pauses failed")
                rest = IDLE_SECONDS
            try:
                rest = min(rest, self.turn())
            except Exception:
                log.exception("operations failed")
            time.sleep(rest)

    def resume(self) -> float:
        """Resume a batch of jobs whose pause is over. Returns the seconds to rest."""
        began = time.monotonic()
        try:
            db.bound(statements=MAX_STATEMENT)
            busy = bool(job_store.pauses_over(limit=1)) and self._end_pauses()
        except db.DISCONNECTED as error:
            db.note_away(error, what="pauses")
            db.disconnect()
            return IDLE_SECONDS
        return (time.monotonic() - began) * REST if busy else IDLE_SECONDS

    def turn(self) -> float:
        """One slice, if there is one to do. Returns the seconds to rest. It waits while the database is away."""
        began = time.monotonic()
        try:
            db.bound(statements=MAX_STATEMENT)
            if not Operation.objects.filter(finished_at=None, paused_at=None).exists():
                return IDLE_SECONDS
            busy = self._advance()
            due_in = None if busy else operations.wait()
        except db.DISCONNECTED as error:
            db.note_away(error, what="operations")
            db.disconnect()
            return IDLE_SECONDS
        if busy:
            return (time.monotonic() - began) * REST
        return IDLE_SECONDS if due_in is None else min(IDLE_SECONDS, max(PACED_SECONDS, due_in))

    def _end_pauses(self) -> bool:
        from jobs.actions.bulk.pauses import end_pauses

        return end_pauses()

    def _advance(self) -> bool:
        from jobs.actions.bulk.operations import advance

        return advance(self._select)

"""Steps beside dispatch: a thread with a database connection of its own, while the beat leads.

A lock, a slow statement or a fault in a step does not reach dispatch. All steps of one thread take turns, each within
its budget. They work under the leadership that the beat has at present. Every write proves it to the database, so a
pass that outlives the leadership changes nothing. The thread ends with the process, and closes its connection while the
beat does not lead.
"""

import threading
from collections.abc import Callable, Sequence

from jobs.engine.steps.step import Step
from jobs.store import db
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
#: A pass begins at each turn of the beat, and at least this often while it leads.
PASS_SECONDS = 0.25
AWAY_SECONDS = 1.0
#: ``close`` waits this long for the present step; its unfinished work is rolled back.
CLOSE_SECONDS = 5.0


class Abreast:
    """A thread that runs ``steps`` under the leadership that ``leadership`` returns; None: the beat does not lead."""

    def __init__(
        self, name: str, steps: Sequence[Step], *, leadership: Callable[[], Leadership | None]
    ) -> None:
        self._name, self._steps, self._leadership = name, steps, leadership
        self._poked = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def poke(self) -> None:
        """Begin a pass now, or another one after the present pass. Never waits."""
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._poked.set()

    def close(self) -> None:
        """End after the present step. May be repeated."""
        self._closing = True
        self._poked.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._poked.clear()
                rest = self._pass()
                if rest:
                    self._poked.wait(rest)
        finally:
            db.disconnect()

    def _pass(self) -> float:
        """Run every step that is due. Returns the seconds to rest; 0 while one has more to do."""
        try:
            for step in self._steps:
                leadership = self._leadership()
                if leadership is None or self._closing:
                    db.disconnect()
                    return PASS_SECONDS
                if step.seconds_until_due():
                    continue
                db.bound(statements=step.budget)
                step.turn(leadership)
        except db.DISCONNECTED as error:
            db.note_away(error, what=self._name)
            db.disconnect()
            return AWAY_SECONDS
        except Exception:  # the end of a thread would go unnoticed
            log.exception("steps failed", thread=self._name)
            db.disconnect()
            return AWAY_SECONDS
        return min([PASS_SECONDS, *(step.seconds_until_due() for step in self._steps if step.more)])

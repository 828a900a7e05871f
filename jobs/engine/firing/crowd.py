"""While a crowd falls due: materialize in a thread of its own, beside dispatch.

Each of the two keeps one database connection busy. In turns they would leave each other's idle, and one leader would
carry little more than half of what a machine of two cores can.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from jobs.store import db
from jobs.store.leases import Reign

T = TypeVar("T")


class Crowd:
    """Runs ``materialize``, which says whether more is due, pass after pass beside something else.

    The thread has a connection of its own, given up when the crowd is through; it works under the same reign, which
    every pass proves to the database, and is never left alone: ``beside`` returns when both are done.
    """

    def __init__(self, materialize: Callable[[Reign], bool]) -> None:
        self._materialize = materialize
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="materialize")

    def beside(self, reign: Reign, other: Callable[[], T]) -> tuple[bool, T]:
        """Do ``other``, and materialize until it is done, one pass at least. Returns whether more is due, and what
        ``other`` returned. Raises what either raised; of two the one of ``other``, for what ails the second shows in
        the next turn.
        """
        done = Event()
        passes = self._thread.submit(self._passes, reign, done)
        try:
            result = other()
        finally:
            done.set()
            wait([passes])
        return passes.result(), result

    def _passes(self, reign: Reign, done: Event) -> bool:
        try:
            more = self._materialize(reign)
            while more and not done.is_set():
                more = self._materialize(reign)
        except db.DISCONNECTED:
            db.disconnect()
            raise
        if not more:
            db.disconnect()
        return more

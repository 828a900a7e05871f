"""Counts of events in this process, kept in memory until ``jobs.engine.activity`` writes them: by tenant and job type,
and the process's own counts.

Counting holds a lock only while it adds, and needs no statement. Times are put into buckets when they are taken away:
for those of a second at once that costs a fraction of what it costs after each statement. The writer takes the counts
away and gives back the counts that it could not write. A killed process loses its unwritten counts; a forked one begins
with none. Memory is bounded: beyond ``MAX_ROWS`` keys, counts of further keys are dropped, and the number of drops is
known.
"""

import os
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from jobs.core.activity import SECONDS_SUM, TIMES, Counts, timed

#: More times of a key than this are put into buckets at once.
MAX_ROWS, MAX_TIMES = 10_000, 10_000

#: A tenant and a job type; or the name of a process's own count, and the values of its labels.
Key = tuple[int, str]
OwnKey = tuple[str, tuple[str, ...]]
K = TypeVar("K", Key, OwnKey)
Rows = dict[Key, Counts]
OwnRows = dict[OwnKey, Counts]


class Activity(Generic[K]):
    """Counts of one process. Safe from several threads."""

    def __init__(self, *, max_rows: int = MAX_ROWS) -> None:
        self._max_rows = max_rows
        self.forget()

    def forget(self) -> None:
        """Begin with nothing, and with a lock of its own: another thread may have held the old one at a fork."""
        self._lock = Lock()
        self._rows: dict[K, Counts] = {}
        self._times: dict[tuple[K, str], list[float]] = {}
        self._dropped = 0

    def add(self, key: K, kind: str, count: int = 1) -> None:
        self.add_all(((key, ((kind, count),)),))

    def add_all(
        self,
        counted: Iterable[tuple[K, Iterable[tuple[str, int]]]],
        times: Iterable[tuple[K, str, Sequence[float]]] = (),
    ) -> None:
        """Add each key's (kind, count) pairs. ``times``: a key, the kind of their sum, and times in seconds."""
        with self._lock:
            for key, counts in counted:
                self._add(self._rows, key, counts)
            for key, kind, seconds in times:
                known = self._times.get((key, kind))
                if known is None:
                    if len(self._times) >= self._max_rows:
                        self._dropped += 1
                        continue
                    known = self._times[key, kind] = []
                known += seconds
                if len(known) > MAX_TIMES:
                    self._add(self._rows, key, timed(known, kind))
                    known.clear()

    def _add(self, rows: dict[K, Counts], key: K, counts: Iterable[tuple[str, int]]) -> None:
        row = rows.get(key)
        if row is None:
            if len(rows) >= self._max_rows:
                self._dropped += 1
                return
            row = rows[key] = {}
        for kind, count in counts:
            row[kind] = row.get(kind, 0) + count

    def take(self) -> dict[K, Counts]:
        """All counts, which are the caller's from here on."""
        with self._lock:
            rows, times = self._rows, self._times
            self._rows, self._times = {}, {}
        for (key, kind), seconds in times.items():
            self._add(rows, key, timed(seconds, kind))
        return rows

    def give_back(self, rows: dict[K, Counts]) -> None:
        """Add counts that could not be written to those that have come since."""
        self.add_all((key, counts.items()) for key, counts in rows.items())

    def take_dropped(self) -> int:
        """How often a count was dropped for want of room since this was last asked."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped


#: The counts of this process.
activity: Activity[Key] = Activity()
own: Activity[OwnKey] = Activity()
os.register_at_fork(after_in_child=activity.forget)
os.register_at_fork(after_in_child=own.forget)


def count(name: str, *labels: str, times: int = 1) -> None:
    """Count an event of this process. Names and labels are the code's, never a tenant's."""
    own.add((name, labels), TIMES, times)


def note_time(name: str, *labels: str, seconds: float) -> None:
    """Note how long an action of this process took."""
    own.add_all((), (((name, labels), SECONDS_SUM, (seconds,)),))

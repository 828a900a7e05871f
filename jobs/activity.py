"""What happens in this process, counted in memory until ``jobs.engine.activity`` writes it: by tenant and job type, and
what the process tells of itself.

Counting takes a lock for as long as it takes to add, and no statement. Whoever writes takes the counts away and gives
back what could not be written. A process that is killed loses what it had not written; one that is forked begins with
none. Memory is bounded: beyond ``MAX_ROWS`` keys, counts of further ones are dropped, and how many is known.
"""

import os
from collections.abc import Iterable
from threading import Lock
from typing import Generic, TypeVar

from jobs.core.activity import SECONDS_BUCKETS, SECONDS_SUM, TIMES, Counts, timed

MAX_ROWS = 10_000

#: A tenant and a job type; or the name of what a process tells of itself, and the values of its labels.
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
        self._dropped = 0

    def add(self, key: K, kind: str, count: int = 1) -> None:
        self.add_all(((key, ((kind, count),)),))

    def add_all(self, counted: Iterable[tuple[K, Iterable[tuple[str, int]]]]) -> None:
        """Add each key's (kind, count) pairs."""
        with self._lock:
            for key, counts in counted:
                row = self._rows.get(key)
                if row is None:
                    if len(self._rows) >= self._max_rows:
                        self._dropped += 1
                        continue
                    row = self._rows[key] = {}
                for kind, count in counts:
                    row[kind] = row.get(kind, 0) + count

    def take(self) -> dict[K, Counts]:
        """All counts, which are the caller's from here on."""
        with self._lock:
            rows, self._rows = self._rows, {}
        return rows

    def give_back(self, rows: dict[K, Counts]) -> None:
        """What could not be written: it is counted with what has come since."""
        self.add_all((key, counts.items()) for key, counts in rows.items())

    def take_dropped(self) -> int:
        """How often a count was dropped for want of room since this was last asked."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped


#: Of this process.
activity: Activity[Key] = Activity()
own: Activity[OwnKey] = Activity()
os.register_at_fork(after_in_child=activity.forget)
os.register_at_fork(after_in_child=own.forget)


def count(name: str, *labels: str, times: int = 1) -> None:
    """Something that this process did, or that befell it. Names and labels are the code's, never a tenant's."""
    own.add((name, labels), TIMES, times)


def note_time(name: str, *labels: str, seconds: float) -> None:
    """How long something took that this process did."""
    own.add_all((((name, labels), timed((seconds,), SECONDS_SUM, SECONDS_BUCKETS)),))

"""Queues: their locks, and the windows that keep the broker shallow and workers busy (DESIGN §3, §8)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from jobs.store import db

_SQL = db.queries("queues")
#: A window is fitted to the workers this often while there is work.
MEASURE_EVERY = timedelta(milliseconds=250)
#: A mark older than this says nothing of the present.
STALE_AFTER = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Window:
    """How many triggers of one job type may be queued at once: what workers take in ``wait``, within the bounds.

    A queue begins with ``first``.
    """

    first: int
    lowest: int
    highest: int
    wait: timedelta


def open_queues(job_types: Iterable[str], window: Window) -> None:
    """Make the queues of these job types known; nothing is dispatched into others. May be repeated."""
    _SQL["open"](job_types=sorted(job_types), window=window.first)


def lock(job_types: Iterable[str], window: Window) -> dict[str, int]:
    """Lock the queues of these job types until the transaction ends; the window of each that is ours now.

    A queue that another dispatcher holds is left out: it is being served.
    """
    rows = _SQL["lock"](job_types=sorted(set(job_types)), every=MEASURE_EVERY)
    windows = {row.job_type: row.window for row in rows}
    if unmeasured := [row.job_type for row in rows if row.unmeasured]:
        fitted = _SQL["measure"](
            job_types=unmeasured,
            lowest=window.lowest,
            highest=window.highest,
            wait_seconds=window.wait.total_seconds(),
            stale=STALE_AFTER,
        )
        windows |= {row.job_type: row.window for row in fitted}
    return windows


def note_dispatched(job_types: Iterable[str]) -> None:
    """Count what was queued: one entry a trigger."""
    counts = Counter(job_types)
    if counts:
        _SQL["note_dispatched"](job_types=list(counts), counts=list(counts.values()))

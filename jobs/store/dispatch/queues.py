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


def lock(job_types: Iterable[str], window: Window) -> dict[str, int]:
    """Lock the queues of these job types until the transaction ends; the window of each that is ours now.

    A queue that another dispatcher holds is left out: it is being served.
    """
    wanted = sorted(set(job_types))
    rows = _SQL["lock"](job_types=wanted, every=MEASURE_EVERY)
    windows = {row.job_type: row.window for row in rows}
    if unknown := [name for name in wanted if name not in windows]:
        # Held by another, or never used: only the latter are created.
        windows |= {row.job_type: row.window for row in _SQL["found"](job_types=unknown, window=window.first)}
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

"""Queues: their locks, and the windows that keep the broker shallow and workers busy (DESIGN §3, §8)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from jobs.store import db

_SQL = db.queries("queues")
#: A window is fitted to the workers this often while there is work.
MEASURE_EVERY = timedelta(milliseconds=250)
#: A mark older than this says nothing of the present.
STALE_AFTER = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Window:
    """How many triggers of one job type may be queued at once: as many as workers take in ``wait``, within the bounds.
    While dispatch takes longer than that, no less than ``initial``.

    A queue begins with ``initial``. Beyond a full window up to ``urgent`` critical and high triggers may be queued.
    """

    initial: int
    minimum: int
    maximum: int
    wait: timedelta
    urgent: int = 0


def urgent_room(urgent: int, queued_urgent: int) -> int:
    """How many more critical and high triggers may go beyond a full window: ``urgent`` less ``queued_urgent``."""
    return max(0, urgent - queued_urgent)


def open_queues(job_types: Iterable[str], window: Window) -> None:
    """Make the queues of these job types known; nothing is dispatched into others. May be repeated."""
    _SQL["open"](job_types=sorted(job_types), window=window.initial)


class Queue(NamedTuple):
    """A queue that this dispatcher has locked. ``unmeasured``: it is time to fit its window.

    ``paused``, ``max_in_flight``: operators' levers on its type.
    """

    job_type: str
    window: int
    unmeasured: bool
    paused: bool
    max_in_flight: int | None


def lock(job_types: Iterable[str]) -> list[Queue]:
    """Lock the queues of these job types until the transaction ends.

    A queue that another dispatcher holds is left out: it is being served.
    """
    return [Queue(*row) for row in _SQL["lock"](job_types=sorted(set(job_types)), every=MEASURE_EVERY)]


def fit(
    locked: Iterable[Queue], window: Window, *, queued: Mapping[str, int], turn_seconds: float
) -> dict[str, int]:
    """The windows of locked queues, fitted to how much workers take. ``queued``: how many triggers each queue holds.

    ``turn_seconds``: how long the last dispatch took. If it took longer than the target wait, as with a slow database,
    no window is smaller than at first: the queue would be empty for the rest of the turn.
    """
    is_slow = turn_seconds > window.wait.total_seconds()
    windows = {queue.job_type: queue.window for queue in locked}
    if unmeasured := [queue.job_type for queue in locked if queue.unmeasured]:
        fitted = _SQL["measure"](
            job_types=unmeasured,
            queued=[queued.get(name, 0) for name in unmeasured],
            minimum=window.initial if is_slow else window.minimum,
            maximum=window.maximum,
            wait_seconds=window.wait.total_seconds(),
            stale=STALE_AFTER,
        )
        windows |= {row.job_type: row.window for row in fitted}
    return windows


def note_dispatched(job_types: Iterable[str]) -> None:
    """Count the queued triggers: one entry per trigger."""
    counts = Counter(job_types)
    if counts:
        _SQL["note_dispatched"](job_types=list(counts), counts=list(counts.values()))

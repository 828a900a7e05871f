"""The order in which jobs go on after an outage, so that a job that fires soon does not wait behind a backlog.

``next_fire_at`` says since when a job has been away, not when it fires next. So long overdue jobs are looked at first,
which is quick. They are then taken by their next firing to come, which takes a while. The order is kept only in memory.
An order that is out of date, or the orders of two leaders, cost a few empty passes and nothing else.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from jobs.core.errors import ScheduleError
from jobs.core.instants import LATEST
from jobs.core.schedule import Schedule, ScheduleType, next_fire
from jobs.store import jobs as jobs_store

#: Jobs that are put in order at once: a quarter of a second's work.
BURST = 10_000
#: Also put in order: jobs that are hardly late, newly created or with a schedule that names an instant only now.
FRESH = 2_000
#: An instant that passed less than this ago, while the leader got to it, is not late yet.
JUST_DUE = timedelta(seconds=2)


class CatchUpOrder:
    """Ids of jobs, the most urgent first; empty in calm."""

    def __init__(self) -> None:
        self._ids: deque[UUID] = deque()

    def __len__(self) -> int:
        return len(self._ids)

    def draw_up(self, *, look_ahead: timedelta) -> None:
        """Put the overdue jobs in order."""
        rows = jobs_store.peek_due(look_ahead=look_ahead, limit=BURST, fresh=FRESH)
        self._ids = deque(dict.fromkeys(_by_urgency(rows)))

    def take(self, limit: int) -> list[UUID]:
        """Remove the next ``limit`` ids from the order and return them."""
        taken = list(islice(self._ids, limit))
        for _ in taken:
            self._ids.popleft()
        return taken


def _by_urgency(rows: Sequence[Any]) -> list[UUID]:
    """Ids by the first firing that is not late yet. Jobs with no such firing, whose work is all late, come last."""
    known: dict[Any, datetime] = {}
    urgency = []
    for row in rows:
        since = row.now - JUST_DUE
        if row.next_fire_at > since:
            at = row.next_fire_at
        elif row.schedule_type == ScheduleType.INTERVAL:
            at = row.next_fire_at + ((since - row.next_fire_at) // row.interval + 1) * row.interval
        else:
            schedule = jobs_store.schedule_of(row)
            at = known.get(schedule) or known.setdefault(schedule, _next(schedule, since))
        urgency.append((at, row.id))
    return [job_id for _, job_id in sorted(urgency)]


def _next(schedule: Schedule, since: datetime) -> datetime:
    try:
        return next_fire(schedule, after=since) or LATEST
    except ScheduleError:
        # The pass that takes the job will see this error and pause the job.
        return LATEST

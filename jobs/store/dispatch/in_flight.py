"""Triggers in flight, by lane, counted without walking past those that have ended.

Behind an old snapshot (a dump, a forgotten transaction) the index entries of all triggers in flight since then stay,
and a count over the index walks them all. So a turn counts triggers queued in the last seconds by time. It remembers
the others and counts them by id.
"""

import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.instants import EARLIEST
from jobs.store import db

_SQL = db.queries("dispatch")
#: Triggers queued longer ago are remembered by id. A transaction that queues takes less time.
RECENT = timedelta(seconds=15)
MOVE_EVERY_SECONDS = 5.0
#: Up to this many are looked up in each turn, more of them only this often: ended triggers then count that much longer.
LOOK_UP_EACH_TURN = 500
LOOK_UP_EVERY_SECONDS = 1.0
_EVER = EARLIEST


class Load(NamedTuple):
    """How many triggers of a lane are in flight, and how many of these are queued."""

    tenant_id: int
    job_type: str
    priority: int
    queued: int
    in_flight: int


class InFlight:
    """Counts for one dispatcher. Used in a transaction."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: the database's clock went back, or another beat led meanwhile."""
        self._since = _EVER
        self._older: dict[UUID, Any] = {}
        self._move_at = self._look_up_at = 0.0

    def count(self, now: datetime) -> list[Load]:
        """All triggers in flight. ``now``: the database's time, at most a few seconds ago."""
        moment = time.monotonic()
        if moment >= self._move_at:
            self._move(now - RECENT)
            self._move_at = moment + MOVE_EVERY_SECONDS
        elif self._older and (len(self._older) <= LOOK_UP_EACH_TURN or moment >= self._look_up_at):
            self._keep(_SQL["in_flight_of"](ids=list(self._older), until=self._since))
            self._look_up_at = moment + LOOK_UP_EVERY_SECONDS
        recent = [Load(*row) for row in _SQL["in_flight_since"](since=self._since)]
        return recent + _grouped(self._older.values())

    def _move(self, since: datetime) -> None:
        """Remember triggers queued up to ``since`` by id from here on."""
        kept = list(self._older)
        if since > self._since:
            older = _SQL["in_flight_between"](since=self._since, until=since)
            self._since = since
        else:
            older = []
        self._keep([*(_SQL["in_flight_of"](ids=kept, until=self._since) if kept else []), *older])

    def _keep(self, rows: Iterable[Any]) -> None:
        self._older = {row.id: row for row in rows}


def _grouped(rows: Iterable[Any]) -> list[Load]:
    queued: Counter[tuple[int, str, int]] = Counter()
    in_flight: Counter[tuple[int, str, int]] = Counter()
    for row in rows:
        lane = (row.tenant_id, row.job_type, row.priority)
        in_flight[lane] += 1
        queued[lane] += row.state == "queued"
    return [Load(*lane, queued[lane], count) for lane, count in in_flight.items()]

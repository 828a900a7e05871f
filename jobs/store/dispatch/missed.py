"""Missed firings end as sets, beside dispatch, whether or not their lane may move (DESIGN §9).

A job may have tens of thousands of them: dispatch decides those it meets and notes the job; ``Missed.end`` ends the
rest in bounded sets. Lanes stand still at a tenant's cap, at a full window, or if no process serves the type; the
materializer goes on meanwhile. So a patrol looks at a few triggers of a few such lanes at a time, and notes their jobs
too.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

from jobs.core.backlog import Lane, Turns
from jobs.core.policies import MisfirePolicy, end_of_missed
from jobs.store import db, events
from jobs.store.insight import activity

_SQL = db.queries("dispatch")
PATROL_EVERY_SECONDS = 1.0
_ENDING = [policy for policy in MisfirePolicy if end_of_missed(policy, too_old=True, passed_over=True)]
#: For each policy that ends firings, how it ends them.
_ENDS = {
    "policies": [str(policy) for policy in _ENDING],
    "too_old": [str(end_of_missed(policy, too_old=True, passed_over=True)) for policy in _ENDING],
    "passed_over": [str(end_of_missed(policy, too_old=False, passed_over=True)) for policy in _ENDING],
}
LANES, TRIGGERS = 10, 20
#: A lane whose oldest trigger waits no longer than this counts as moving.
WAITED = timedelta(seconds=30)


class Missed:
    """Jobs with missed firings to end: all that are scheduled before an instant of each job. For several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._froms: dict[UUID, datetime] = {}

    def note(self, froms: Mapping[UUID, datetime]) -> None:
        """Note that the missed firings of each of these jobs that are scheduled before its instant must end."""
        with self._lock:
            for job_id, keep_from in froms.items():
                self._froms[job_id] = max(keep_from, self._froms.get(job_id, keep_from))

    def end(self, *, limit: int) -> dict[UUID, str]:
        """End up to ``limit`` of them. Returns them with their reasons; as many as ``limit`` while there may be more.

        Opens a transaction. May be repeated.
        """
        with self._lock:
            froms = dict(self._froms)
        if not froms:
            return {}
        with db.atomic():
            rows = _SQL["skip_missed"](
                job_ids=list(froms), keep_froms=list(froms.values()), limit=limit, **_ENDS
            )
            ended = {row.id: row.reason for row in rows}
            events.note(ended)
            activity.count_ended(rows)
        if len(ended) < limit:
            with self._lock:
                self._froms = {job: at for job, at in self._froms.items() if at != froms.get(job)}
        return ended


class Patrol:
    """Goes round the lanes that wait long; within a deep one it goes on where it was."""

    def __init__(self) -> None:
        self._at = 0.0
        #: The lanes that this round must still visit.
        self._round: list[Lane] = []
        self._from: dict[tuple[int, str, int], datetime] = {}

    def walk(self, turns: Turns, now: datetime) -> Sequence[Any]:
        """Once a second, the first triggers of the next due lanes. May be repeated."""
        if time.monotonic() < self._at:
            return ()
        self._at = time.monotonic() + PATROL_EVERY_SECONDS
        if not self._round:
            self._round = turns.lanes()
            self._from = {lane.key: self._from[lane.key] for lane in self._round if lane.key in self._from}
        chosen: list[Lane] = []
        while self._round and len(chosen) < LANES:
            lane = self._round.pop()
            if lane.floor < now - WAITED and lane in turns:
                chosen.append(lane)
        return self._look_at(chosen) if chosen else ()

    def _look_at(self, lanes: Sequence[Lane]) -> list[Any]:
        rows = _SQL["waiting"](
            tenant_ids=[lane.tenant_id for lane in lanes],
            job_types=[lane.job_type for lane in lanes],
            priorities=[lane.priority for lane in lanes],
            floors=[max(lane.floor, self._from.get(lane.key, lane.floor)) for lane in lanes],
            limit=TRIGGERS,
        )
        for nth, lane in enumerate(lanes, 1):
            of_lane = [row for row in rows if row.nth == nth]
            if len(of_lane) == TRIGGERS:
                self._from[lane.key] = of_lane[-1].due_at
            else:
                self._from.pop(lane.key, None)
        return rows

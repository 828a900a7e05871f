"""A new release of the time zone database: recompute the next instants that it moves, before the old ones are used.

``next_fire_at`` was computed by the rules of its day, perhaps months ago. Under new rules a firing may lie earlier and
would be lost, or may lie later and would run too early. So a leader that finds another release on record than its own
walks all cron jobs in time zones, in batches. Until the walk has finished, only those jobs wait to be materialized; the
look-ahead hides this. The log and the audit trail show the moved instants.

The walk computes from the moment at which a leader was last at work: all earlier instants were fired by the former
rules and must not fire again. A walk that is interrupted is repeated from the start: it changes nothing twice.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.calendar.plans import PlanCache
from jobs.core.errors import ScheduleError
from jobs.core.instants import TICK
from jobs.core.timezones import tzdata_version
from jobs.store import db, lifecycle, trail
from jobs.store import jobs as jobs_store
from jobs.store.catchup import zones
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
LOOK_EVERY_SECONDS = 60.0
BATCH = 1000
#: How long one turn of the walk may take.
BUDGET_SECONDS = 0.1
#: The walk comes back this often to jobs that others have locked. Then it leaves them as they are.
TRIES = 20


class Move(NamedTuple):
    """A job's next instant by the new rules. ``withdrawn``: a firing ahead that has its trigger is no longer named."""

    before: datetime
    after: datetime | None
    withdrawn: bool


class ZoneRules:
    """Remembers when it last looked, and how far a walk has come."""

    def __init__(self) -> None:
        self._version = tzdata_version()
        self._term: int | None = None
        self._look_at = 0.0
        self._walk: _Walk | None = None

    def settled(self, leadership: Leadership) -> bool:
        """Whether next instants are computed by this process' release. Goes on with the walk that computes them."""
        if leadership.term != self._term:
            # Another beat may have led, and walked, in between.
            self._term, self._walk, self._look_at = leadership.term, None, 0.0
        if self._walk is None:
            if time.monotonic() < self._look_at:
                return True
            known = zones.look()
            if known is not None and known.version == self._version:
                zones.touch(self._version)
                self._look_at = time.monotonic() + LOOK_EVERY_SECONDS
                return True
            log.info("time zone rules changed", before=known and known.version, after=self._version)
            self._walk = _Walk(since=known and known.seen_at)
        if not self._walk.step():
            return False
        zones.settle(self._version)
        log.info("time zone rules in force", version=self._version, moved=self._walk.moved)
        self._walk, self._look_at = None, time.monotonic() + LOOK_EVERY_SECONDS
        return True


class _Walk:
    """One walk over all jobs with a time zone. ``moved``: how many have another next instant now."""

    def __init__(self, *, since: datetime | None) -> None:
        self._since = since
        self._after = zones.START
        self._locked: list[UUID] = []
        self._tries = 0
        self._plans = PlanCache(schedule_of=jobs_store.schedule_of)
        self.moved = 0

    def step(self) -> bool:
        """Take some batches; True when there are no more."""
        give_up = time.monotonic() + BUDGET_SECONDS
        while True:
            with db.atomic():
                rows = zones.page(after=self._after, limit=BATCH)
                self._move([row for row in rows if row.next_fire_at is not None])
            self._locked += [row.id for row in rows if row.zoned and row.next_fire_at is None]
            if len(rows) < BATCH:
                return self._come_back()
            self._after = rows[-1].id
            if time.monotonic() >= give_up:
                return False

    def _come_back(self) -> bool:
        """Take the jobs that were locked; they are few, and soon free."""
        if self._locked:
            with db.atomic():
                rows = zones.page(after=zones.START, limit=len(self._locked), ids=self._locked)
                self._move([row for row in rows if row.next_fire_at is not None])
            self._locked = [row.id for row in rows if row.zoned and row.next_fire_at is None]
            self._tries += 1
        if self._locked and self._tries >= TRIES:
            log.warning(
                "locked jobs keep the former time zone rules", job_ids=[str(one) for one in self._locked]
            )
            return True
        return not self._locked

    def _move(self, rows: Sequence[Any]) -> None:
        moves = {row.id: move for row in rows if (move := self._move_of(row)) is not None}
        if not moves:
            return
        now = rows[0].now
        jobs_store.advance({job_id: move.after for job_id, move in moves.items()})
        lifecycle.withdraw_future(
            job_ids=[job_id for job_id, move in moves.items() if move.withdrawn], now=now
        )
        with trail.acting_as(trail.ENGINE):
            trail.note_jobs(
                {
                    job_id: {"next_fire_at": [_text(move.before), _text(move.after)]}
                    for job_id, move in moves.items()
                }
            )
        self.moved += len(moves)

    def _move_of(self, row: Any) -> Move | None:
        # An overdue job goes on from its next instant; an edited job has started again at its edit.
        begun = min(max(self._since or row.now, row.updated_at), row.next_fire_at - TICK)
        last = row.last_fired_for
        try:
            ahead = last is not None and last > row.now
            withdrawn = ahead and self._next(row, last - TICK) != last
            after = row.now if withdrawn else begun if last is None else max(begun, last)
            following = self._next(row, after)
        except ScheduleError:
            # Materialize will see this error and pause the job.
            return None
        if following == row.next_fire_at and not withdrawn:
            return None
        return Move(row.next_fire_at, following, withdrawn)

    def _next(self, row: Any, after: datetime) -> datetime | None:
        return self._plans.plan(row, until=after, limit=0, since=after + TICK).following


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()

"""Choice: decide which triggers go next and queue them, in one transaction that locks queues and tenants (DESIGN §8).

Lanes are chosen in memory (``jobs.core.backlog``), by the triggers in flight. Then only these lanes are looked at, as
far as each may be served. Queues are locked first, then the chosen tenants; both skip rows that another dispatcher
holds. So caps stay exact with any number of dispatchers, and none waits for another. An acknowledged pause or cancel
holds, because it takes the tenant's lock.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Protocol
from uuid import UUID

from jobs.core.backlog import Ask, Lane, News
from jobs.core.levers import lower_cap
from jobs.core.policies import LEAST_URGENT
from jobs.crash_points import crash_point
from jobs.store import db, events
from jobs.store.dispatch import queues
from jobs.store.dispatch.decisions import Outcome, Queued, carry_out, decide_all, missed_of
from jobs.store.dispatch.memory import Memory
from jobs.store.dispatch.queues import Queue, Window
from jobs.store.dispatch.targets import Gates
from jobs.store.insight import activity
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("dispatch")
#: How often one dispatch looks past triggers that must wait: they may hide the due work of others.
PICKS = 5
#: A turn that has taken this long ends with the first pick that finds nothing, as when many lanes have just run empty:
#: what fell due meanwhile waits for the next turn.
PICK_SECONDS = 0.05
#: A queue that still holds this much of its window at a look has lost no more than a quarter of it since the last look.
#: So the rest lasts for three times as long.
AMPLE = 0.75


@dataclass(slots=True)
class Dispatched:
    """The result of one dispatch.

    ``blocked``: due work remains that could not start (a cap, a full window); ``ample``: all of it waits for queues
    that are full, and were well filled before. ``cut_short``: it took long, and more may start at once.
    ``depths``: how many triggers are queued of each job type that was dispatched, these included; ``full``: the types
    whose queues took all they may hold.
    ``seconds_to_next``: until the next trigger that is not due yet falls due; None when nothing waits.
    """

    queued: list[Queued] = field(default_factory=list)
    ended: dict[UUID, str] = field(default_factory=dict)
    blocked: bool = False
    ample: bool = False
    cut_short: bool = field(default=False, compare=False)
    depths: dict[str, int] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    seconds_to_next: float | None = None

    @property
    def count(self) -> int:
        return len(self.queued) + len(self.ended)


class Rates(Protocol):
    """The rate limits, as ``jobs.limits.Rates`` tells them. A tenant has an id and its rates."""

    def rooms(self, tenants: Iterable[Any]) -> dict[int, int]: ...
    def spend(self, counts: Mapping[int, int]) -> None: ...
    def admit(
        self, wanted: Mapping[str, tuple[int, float]]
    ) -> Mapping[str, tuple[int, Sequence[timedelta]]]: ...


def dispatch(
    *,
    memory: Memory,
    leadership: Leadership,
    caps: Mapping[str, int | None],
    window: Window,
    limit: int,
    rates: Rates,
    is_barred: Callable[[int, str], bool] | None = None,
) -> Dispatched:
    """Choose and queue up to ``limit`` due triggers; end, park or hold those that must not run. Opens a transaction.

    ``memory`` is this dispatcher's own, from turn to turn. ``caps`` maps each job type served to its ``max_in_flight``
    (None: unlimited); ``is_barred`` tells whether a tenant's work of a type must not start. May be repeated: each call
    takes other triggers. Commits before it returns, so the caller publishes durable triggers; those that it fails to
    publish are reaped.
    """
    done = Dispatched()
    began_at = time.monotonic()
    now = memory.look(leadership)
    seen_at = time.monotonic()
    due = [name for name in memory.backlog.turns.job_types if name in caps]
    waiting = any(memory.is_awake(tenant_id) for tenant_id in memory.backlog.turns.tenants) if due else False
    _patrol(memory, now)
    if due and not memory.stopped:
        turn = _Turn(memory, leadership, rates, now, limit, is_barred)
        try:
            with db.atomic():
                turn.run(queues.lock(due), window, caps, done)
        except BaseException:
            turn.undo()
            raise
        rates.spend(turn.started)
        done.blocked = waiting and done.count < limit and not turn.paused.issuperset(due)
        done.ample = done.blocked and set(due) <= done.full & turn.well_filled
        memory.missed.note(turn.missed)
    memory.turn_seconds = time.monotonic() - began_at
    upcoming = memory.backlog.next_floor()
    if upcoming is not None:
        done.seconds_to_next = (upcoming - now).total_seconds() - (time.monotonic() - seen_at)
    return done


def _patrol(memory: Memory, now: datetime) -> None:
    """Note the missed firings of a few lanes that wait long. Runs before the turn, whose commits must be published."""
    try:
        if waiting_long := memory.patrol.walk(memory.backlog.turns, now):
            memory.missed.note(missed_of(decide_all(waiting_long)))
    except db.StatementFailed as error:
        log.warning("look for missed firings failed", error=str(error).strip())


class _Turn:
    """One transaction: allots places and serves them, until none is left or nothing is due that may start."""

    def __init__(
        self,
        memory: Memory,
        leadership: Leadership,
        rates: Rates,
        now: datetime,
        limit: int,
        is_barred: Callable[[int, str], bool] | None,
    ) -> None:
        self._memory, self._leadership, self._rates, self._now, self._limit = (
            memory,
            leadership,
            rates,
            now,
            limit,
        )
        self._is_barred = is_barred
        self._gates = Gates(rules=memory.rules, rates=rates, is_guarded=memory.is_guarded)
        self._turns = memory.backlog.turns
        # Rates are asked for here: never within the transaction, which keeps tenants locked.
        self._rated = set(self._turns.first(limit, memory.rated()))
        self._tokens = rates.rooms([memory.tenants[tenant_id] for tenant_id in self._rated])
        #: Tenants that this dispatcher has locked, and those that others have locked.
        self._ours: set[int] = set()
        self._others: set[int] = set()
        #: The floors of the lanes that were looked at, as they were before.
        self._floors: dict[Lane, datetime] = {}
        #: How many triggers were dispatched, by tenant.
        self.started: Counter[int] = Counter()
        self.well_filled: set[str] = set()
        #: Types that operators paused.
        self.paused: set[str] = set()
        self.missed: dict[UUID, datetime] = {}
        #: Jobs with missed firings that this turn left to the set of their job.
        self._left: set[UUID] = set()

    def run(
        self, locked: Sequence[Queue], window: Window, caps: Mapping[str, int | None], done: Dispatched
    ) -> None:
        """Dispatch into the queues that this dispatcher has locked. Fills in ``done``."""
        until = time.monotonic() + PICK_SECONDS
        rooms = self._count(locked, window, caps)
        left = dict(rooms)
        self._turns.recall(self._room_of, self._is_barred)
        done.ended |= self._freeze()
        for _ in range(PICKS):
            asks = self._turns.allot(self._limit - done.count, left, self._room_of)
            if not asks:
                break
            outcome = self._serve(asks, left)
            done.ended |= outcome.ended
            self.missed |= outcome.missed
            done.queued += outcome.queued
            if not outcome.found and time.monotonic() > until:
                done.cut_short = True
                break
        self._serve_urgent(window, done)
        taken = Counter(item.job_type for item in done.queued)
        done.depths = {name: self._queued[name] + count for name, count in taken.items()}
        done.full = {name for name, count in taken.items() if count >= rooms[name]}
        queues.note_dispatched(taken)
        events.note(done.ended)
        if done.queued:
            crash_point("dispatch.before_commit", taken)

    def _serve_urgent(self, window: Window, done: Dispatched) -> None:
        """Critical and high triggers go a little beyond a full queue: workers keep slots for them."""
        if not window.urgent:
            return
        taken = Counter(item.job_type for item in done.queued)
        urgent = Counter(item.job_type for item in done.queued if item.urgent) + self._queued_urgent
        left = {
            name: min(queues.urgent_room(window.urgent, urgent[name]), cap - taken[name])
            for name, cap in self._cap_rooms.items()
        }
        asks = self._turns.allot_urgent(self._limit - done.count, left, self._room_of)
        if asks:
            outcome = self._serve(asks, left)
            done.ended |= outcome.ended
            self.missed |= outcome.missed
            done.queued += outcome.queued

    def undo(self) -> None:
        """Nothing of the turn was committed: remember the lanes as they were before it."""
        self._memory.backlog.learn(News(*lane.key, floor) for lane, floor in self._floors.items())

    def _count(
        self, locked: Sequence[Queue], window: Window, caps: Mapping[str, int | None]
    ) -> dict[str, int]:
        """How many triggers of each job type may start, given those in flight."""
        by_level: Counter[tuple[int, int]] = Counter()
        running: Counter[str] = Counter()
        self._in_flight: Counter[int] = Counter()
        self._queued: Counter[str] = Counter()
        self._queued_urgent: Counter[str] = Counter()
        self._cap_rooms: dict[str, int] = {}
        for row in self._memory.in_flight.count(self._now):
            by_level[row.tenant_id, row.priority] += row.in_flight
            running[row.job_type] += row.in_flight
            self._in_flight[row.tenant_id] += row.in_flight
            self._queued[row.job_type] += row.queued
            if row.priority <= LEAST_URGENT:
                self._queued_urgent[row.job_type] += row.queued
        self._memory.count(by_level)
        windows = queues.fit(locked, window, queued=self._queued, turn_seconds=self._memory.turn_seconds)
        self.well_filled = {name for name, window in windows.items() if self._queued[name] >= AMPLE * window}
        rooms = {name: window - self._queued[name] for name, window in windows.items()}
        for queue in locked:
            name, cap = queue.job_type, lower_cap(caps[queue.job_type], queue.max_in_flight)
            if cap is not None:
                rooms[name] = min(rooms[name], cap - running[name])
            if not queue.paused:
                #: How many triggers of the type its cap lets start.
                self._cap_rooms[name] = self._limit if cap is None else cap - running[name]
        self.paused = {queue.job_type for queue in locked if queue.paused}
        return rooms | dict.fromkeys(self.paused, 0)

    def _room_of(self, tenant_id: int) -> int:
        """How many more triggers the tenant may start in this turn."""
        tenant = self._memory.tenants.get(tenant_id)
        if tenant is None or tenant.status != "active" or tenant_id in self._others:
            return 0
        started = self.started[tenant_id]
        room: int = tenant.max_in_flight - self._in_flight[tenant_id] - started
        if tenant_id in self._tokens:
            return min(room, self._tokens[tenant_id] - started)
        # A rate that was not asked for keeps its tenant waiting until the next turn.
        return 0 if tenant.rate_per_second and tenant_id not in self._rated else room

    def _lock(self, tenant_ids: set[int]) -> None:
        """Lock tenants and read them again; where others dispatch too, count the tenants' triggers in flight again."""
        new = sorted(tenant_ids - self._ours - self._others)
        if not new:
            return
        rows = _SQL["lock_tenants"](term=self._leadership.term, ids=new)
        self._memory.keep(rows)
        locked = {row.id for row in rows}
        self._ours |= locked
        self._others |= set(new) - locked
        if not self._leadership.alone:
            for tenant_id in locked:
                self._in_flight[tenant_id] = 0
            for row in _SQL["in_flight_of_tenants"](tenant_ids=sorted(locked)):
                self._in_flight[row.tenant_id] = row.in_flight

    def _serve(self, asks: Sequence[Ask], left: dict[str, int]) -> Outcome:
        """Look at the lanes that places were allotted to, decide, and give back the places that were not used."""
        self._lock({ask.lane.tenant_id for ask in asks})
        given: Counter[Lane] = Counter()
        wanted: Counter[Lane] = Counter()
        rooms: dict[int, int] = {tenant_id: self._room_of(tenant_id) for tenant_id in self._ours}
        for ask in asks:
            given[ask.lane] += ask.count
            if (count := min(ask.count, rooms.get(ask.lane.tenant_id, 0))) > 0:
                rooms[ask.lane.tenant_id] -= count
                wanted[ask.lane] += count
        found = _look_at(wanted)
        outcome = carry_out(_in_order(asks, found), gates=self._gates, left=self._left)
        started = Counter(outcome.lanes)
        nths = {lane: nth for nth, lane in enumerate(wanted, 1)}
        for lane, count in given.items():
            begun = started[nths[lane]] if lane in nths else 0
            passed = len(found.get(lane, ())) - begun
            self._turns.give_back(lane, count - begun - passed, passed=passed)
            left[lane.job_type] += count - begun
            self.started[lane.tenant_id] += begun
        self._raise_floors({lane: [row.due_at for row in found[lane]] for lane in wanted}, wanted)
        return outcome

    def _raise_floors(self, found: Mapping[Lane, Sequence[datetime]], wanted: Mapping[Lane, int]) -> None:
        """Lanes that gave all they were asked for go on from there; for the others the next trigger is looked up."""
        short = []
        for lane, due_ats in found.items():
            self._floors.setdefault(lane, lane.floor)
            if len(due_ats) == wanted[lane]:
                lane.move(due_ats[-1], found=len(due_ats))
            else:
                short.append(lane)
        if short:
            columns = _columns(short)
            for row in _SQL["floors"](**columns):
                self._memory.backlog.settle(short[row.nth - 1], row.floor, now=self._now)

    def _freeze(self) -> dict[UUID, str]:
        """End the due triggers of frozen tenants. Returns the ended triggers, with the reason."""
        frozen = self._memory.frozen()
        self._lock(set(frozen))
        lanes = [
            lane
            for tenant_id in frozen
            if tenant_id in self._ours and self._memory.tenants[tenant_id].status == "frozen"
            for lane in self._turns.lanes_of(tenant_id)
        ]
        if not lanes:
            return {}
        columns = _columns(lanes)
        del columns["floors"]
        rows = _SQL["freeze"](**columns, limit=self._limit)
        activity.count_ended(rows)
        activity.count_first(rows)
        return {row.id: row.reason for row in rows}


def _columns(lanes: Iterable[Lane]) -> dict[str, list[Any]]:
    rows = [(lane.tenant_id, lane.job_type, lane.priority, lane.floor) for lane in lanes]
    tenant_ids, job_types, priorities, floors = map(list, zip(*rows, strict=True))
    return {"tenant_ids": tenant_ids, "job_types": job_types, "priorities": priorities, "floors": floors}


def _look_at(wanted: Mapping[Lane, int]) -> dict[Lane, list[Any]]:
    """The candidates of each lane, first due first."""
    lanes = list(wanted)
    found: dict[Lane, list[Any]] = {lane: [] for lane in lanes}
    if lanes:
        for row in _SQL["candidates"](**_columns(lanes), counts=list(wanted.values())):
            found[lanes[row.nth - 1]].append(row)
    return found


def _in_order(asks: Sequence[Ask], found: Mapping[Lane, Sequence[Any]]) -> list[Any]:
    """All candidates, in the order in which places were allotted."""
    rows = {lane: iter(of_lane) for lane, of_lane in found.items()}
    return [row for ask in asks if ask.lane in rows for row in islice(rows[ask.lane], ask.count)]

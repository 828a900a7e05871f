"""Choice: who goes next, decided and queued in one transaction under the locks of queues and tenants (DESIGN §8).

Queues are locked first, then tenants, both skipping what another dispatcher holds: caps stay exact however many
dispatch, none waits for another, and a pause or cancel that was acknowledged holds, as it takes the tenant's lock.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from jobs.core.policies import Delivery
from jobs.core.states import SKIP_REASONS
from jobs.crash_points import crash_point
from jobs.store import db, events
from jobs.store.dispatch import parking, queues
from jobs.store.dispatch.queues import Window
from jobs.store.leases import Reign

_SQL = db.queries("dispatch")
#: Triggers that have to wait may hide the due work of others: how often one dispatch looks past them.
PICKS = 5
#: A queue that still holds this much of its window when it is looked at has lost no more than a quarter of it since the
#: last look, and so lasts for three times as long until the next one.
AMPLE = 0.75


@dataclass(frozen=True, slots=True)
class Queued:
    """A trigger that is committed as ``queued`` and now wants its message.

    ``suspect``: it was in the hand of a process that died. ``at_most_once``: its job's delivery.
    """

    id: UUID
    fence: int
    job_type: str
    suspect: bool = False
    at_most_once: bool = False
    tenant_id: int = 0


@dataclass(slots=True)
class Dispatched:
    """What one dispatch did.

    ``blocked``: due work remains that could not start (a cap, a full window); ``ample``: all of it waits for queues
    that are full, and were well filled before. ``depths``: how many are queued of each job type that was dispatched,
    these included; ``full``: the types whose queues took all they may hold.
    ``seconds_to_next``: until something falls due that is not due yet; None when nothing waits.
    """

    queued: list[Queued] = field(default_factory=list)
    ended: dict[UUID, str] = field(default_factory=dict)
    blocked: bool = False
    ample: bool = False
    depths: dict[str, int] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    seconds_to_next: float | None = None

    @property
    def count(self) -> int:
        return len(self.queued) + len(self.ended)


class Rates(Protocol):
    """The rate limits, as ``jobs.limits.Rates`` knows them. ``tenant`` has an id and its rates."""

    def room(self, tenant: Any) -> int | None: ...
    def spend(self, tenant: Any, count: int) -> None: ...
    def admit(self, target: str, wanted: int) -> list[timedelta]: ...


def dispatch(
    *, reign: Reign, caps: Mapping[str, int | None], window: Window, limit: int, rates: Rates
) -> Dispatched:
    """Choose and queue up to ``limit`` due triggers; end, park or hold those that are not to run. Opens a transaction.

    ``caps`` maps each job type served to its ``max_in_flight`` (None: unlimited). May be repeated: each call takes
    others. Commits before it returns, so the caller publishes what is durable; what it fails to publish is reaped.
    """
    done = Dispatched()
    with db.atomic():
        lanes = [lane for lane in _SQL["due_lanes"]() if lane.job_type in caps]
        waits = [
            lane.seconds_to_next for lane in lanes if not lane.frozen and lane.seconds_to_next is not None
        ]
        done.seconds_to_next = min(waits, default=None)
        due = [lane for lane in lanes if lane.due]
        if not due:
            return done
        windows = queues.lock((lane.job_type for lane in due), window)
        # Without the queue a tenant is of no use to us, and would be missed by the dispatcher that has the queue.
        ours = [lane for lane in due if lane.job_type in windows]
        tenants = _SQL["lock_tenants"](**reign.proof(), tenant_ids=sorted({lane.tenant_id for lane in ours}))
        frozen = _freeze(tenants, ours, done, limit=limit)
        pick = _Pick(tenants, ours, caps, windows, rates)
        for _ in range(PICKS):
            parked = pick.carry_out(pick(limit - done.count), done)
            # What was parked may have hidden work that can start.
            if done.count >= limit or not parked:
                break
        pick.settle(done)
        events.note(done.ended)
        if done.queued:
            crash_point("dispatch.before_commit")
    done.blocked = done.count < limit and len(frozen) < len({lane.tenant_id for lane in due})
    done.ample = done.blocked and {lane.job_type for lane in due} <= done.full & pick.well_filled
    return done


def _freeze(tenants: Sequence[Any], due: Sequence[Any], done: Dispatched, *, limit: int) -> set[int]:
    """End what is due of frozen tenants. Returns which they are."""
    frozen = {tenant.id for tenant in tenants if tenant.status == "frozen"}
    if frozen:
        rows = _SQL["freeze"](**_columns(lane for lane in due if lane.tenant_id in frozen), limit=limit)
        done.ended |= {row.id: row.reason for row in rows}
    return frozen


def _columns(lanes: Iterable[Any]) -> dict[str, list[Any]]:
    rows = [(lane.tenant_id, lane.job_type, lane.priority) for lane in lanes]
    tenant_ids, job_types, priorities = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return {"tenant_ids": tenant_ids, "job_types": job_types, "priorities": priorities}


class _Pick:
    """Picks among the due lanes that are open to us, as often as called, and carries the verdicts out."""

    def __init__(
        self,
        tenants: Sequence[Any],
        due: Sequence[Any],
        caps: Mapping[str, int | None],
        windows: Mapping[str, int],
        rates: Rates,
    ) -> None:
        self._tenants = {tenant.id: tenant for tenant in tenants if tenant.status == "active"}
        self._tokens = {
            tenant.id: room
            for tenant in self._tenants.values()
            if tenant.rate_per_second and (room := rates.room(tenant)) is not None
        }
        self._windows = windows
        self._found: dict[str, int] = {}
        self._lanes = [lane for lane in due if lane.tenant_id in self._tenants]
        self._queues = {
            "queues": list(windows),
            "windows": list(windows.values()),
            "type_caps": [caps[name] for name in windows],
        }
        self._rates = rates
        self._gone: Counter[int] = Counter()

    def __call__(self, limit: int) -> list[Any]:
        lanes = [lane for lane in self._lanes if self._tokens.get(lane.tenant_id, 1) > 0]
        if not lanes or limit <= 0:
            return []
        return _SQL["pick"](
            **_columns(lanes),
            **self._queues,
            rated_tenants=list(self._tokens),
            tokens=list(self._tokens.values()),
            limit=limit,
        )

    @property
    def well_filled(self) -> set[str]:
        """The job types whose queues held most of their windows before anything was added to them."""
        return {name for name, queued in self._found.items() if queued >= AMPLE * self._windows[name]}

    def carry_out(self, picked: Sequence[Any], done: Dispatched) -> bool:
        """Do what was decided, and note in ``done`` what was queued, in the order picked, and what ended.

        Returns whether some were parked.
        """
        by_verdict: defaultdict[str, list[Any]] = defaultdict(list)
        for row in picked:
            by_verdict[row.verdict].append(row)
        parking.hold(by_verdict["hold"])
        done.ended |= _end(picked, by_verdict["superseded"])
        done.ended |= parking.make_way(by_verdict["wait"], by_verdict["replace"])
        chosen = self._admitted(by_verdict["dispatch"])
        done.queued += _queue(chosen)
        taken = Counter(row.job_type for row in chosen)
        done.depths |= {row.job_type: row.type_queued + taken[row.job_type] for row in chosen}
        done.full |= {row.job_type for row in chosen if taken[row.job_type] >= row.type_room}
        for row in chosen:
            self._found.setdefault(row.job_type, row.type_queued)
            self._gone[row.tenant_id] += 1
            if row.tenant_id in self._tokens:
                self._tokens[row.tenant_id] -= 1
        return len(chosen) < len(by_verdict["dispatch"]) or bool(by_verdict["wait"] or by_verdict["replace"])

    def _admitted(self, chosen: Sequence[Any]) -> list[Any]:
        """Those of the chosen whose targets may be called now; the others are parked for their time."""
        by_target: defaultdict[str, list[Any]] = defaultdict(list)
        for row in chosen:
            if row.target:
                by_target[row.target].append(row)
        waits: dict[UUID, timedelta] = {}
        for target, rows in by_target.items():
            turns = self._rates.admit(target, len(rows))
            waits |= {row.id: turn for row, turn in zip(rows[len(rows) - len(turns) :], turns, strict=True)}
        parking.park_until(waits)
        return [row for row in chosen if row.id not in waits]

    def settle(self, done: Dispatched) -> None:
        """Count what was queued where the next dispatch looks: at the queues, and in the tenants' buckets."""
        queues.note_dispatched(item.job_type for item in done.queued)
        for tenant_id, count in self._gone.items():
            if self._tenants[tenant_id].rate_per_second:
                self._rates.spend(self._tenants[tenant_id], count)


def _end(picked: Sequence[Any], overtaken: Sequence[Any]) -> dict[UUID, str]:
    """End firings that are not to run. Returns them with their reasons."""
    skips = {row.id: row.verdict for row in picked if row.verdict in SKIP_REASONS}
    if skips:
        _SQL["skip"](ids=list(skips), reasons=list(skips.values()))
    if overtaken:
        _SQL["supersede"](ids=[row.id for row in overtaken])
    return skips | {row.id: row.verdict for row in overtaken}


def _queue(chosen: Sequence[Any]) -> list[Queued]:
    rows = _SQL["dispatch"](ids=[row.id for row in chosen]) if chosen else []
    fences = {row.id: row.fence for row in rows}
    return [
        Queued(
            row.id,
            fences[row.id],
            row.job_type,
            row.suspect,
            row.delivery == Delivery.AT_MOST_ONCE,
            row.tenant_id,
        )
        for row in chosen
        if row.id in fences
    ]

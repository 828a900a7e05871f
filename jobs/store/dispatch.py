"""Dispatch: who goes next, decided and queued in one transaction under the tenants' locks (DESIGN §8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.core.states import SKIP_REASONS
from jobs.store import db
from jobs.store.leases import Reign

_SQL = db.queries("dispatch")
#: Triggers that have to wait for their job may hide the due work of others: how often one dispatch looks past them.
PICKS = 5
PARKED = ("wait", "replace")


@dataclass(frozen=True, slots=True)
class Queued:
    """A trigger that is committed as ``queued`` and now wants its message."""

    id: UUID
    fence: int
    job_type: str


@dataclass(slots=True)
class Dispatched:
    """What one dispatch did.

    ``blocked``: due work remains that could not start (a cap, a full window). ``seconds_to_next``: until something
    falls due that is not due yet; None when nothing waits.
    """

    queued: list[Queued] = field(default_factory=list)
    ended: dict[UUID, str] = field(default_factory=dict)
    blocked: bool = False
    seconds_to_next: float | None = None

    @property
    def count(self) -> int:
        return len(self.queued) + len(self.ended)


def dispatch(*, reign: Reign, caps: Mapping[str, int | None], window: int, limit: int) -> Dispatched:
    """Choose and queue up to ``limit`` due triggers; end, park or hold those that are not to run. Opens a transaction.

    ``caps`` maps each job type served to its ``max_in_flight`` (None: unlimited); ``window`` bounds how many of one
    type are queued at once. May be repeated: each call takes others. Commits before it returns, so the caller
    publishes what is durable; what it fails to publish is reaped.
    """
    done = Dispatched()
    with db.atomic():
        lanes = [lane for lane in _SQL["due_lanes"]() if lane.job_type in caps]
        done.seconds_to_next = min(
            (lane.seconds_to_next for lane in lanes if lane.seconds_to_next is not None), default=None
        )
        due = [lane for lane in lanes if lane.due]
        if not due:
            return done
        tenants = _SQL["lock_tenants"](**reign.proof(), tenant_ids=sorted({lane.tenant_id for lane in due}))
        locked = {row.id for row in tenants}
        due = [lane for lane in due if lane.tenant_id in locked]
        for _ in range(PICKS):
            picked = _pick(due, caps, window=window, limit=limit - done.count) if due else []
            _carry_out(picked, done)
            # What was parked may have hidden work that can start.
            if done.count >= limit or not any(row.verdict in PARKED for row in picked):
                break
    done.blocked = done.count < limit
    return done


def release(*, after: UUID, limit: int) -> UUID | None:
    """Show dispatch again what was parked behind another trigger of its job, where there is room now.

    Looks at up to ``limit`` jobs by id from ``after``; returns where to go on, None at the end. May be repeated.
    """
    rows = _SQL["release"](after=after, limit=limit)
    return rows[0].job_id if rows else None


def _pick(lanes: Sequence[Any], caps: Mapping[str, int | None], *, window: int, limit: int) -> list[Any]:
    return _SQL["pick"](
        tenant_ids=[lane.tenant_id for lane in lanes],
        job_types=[lane.job_type for lane in lanes],
        priorities=[lane.priority for lane in lanes],
        capped_types=list(caps),
        type_caps=list(caps.values()),
        window=window,
        limit=limit,
    )


def _carry_out(picked: Sequence[Any], done: Dispatched) -> None:
    """Do what was decided, and note in ``done`` what was queued, in the order picked, and what ended."""
    by_verdict: dict[str, list[Any]] = {}
    for row in picked:
        by_verdict.setdefault(row.verdict, []).append(row)
    if held := by_verdict.get("hold"):
        _SQL["hold"](ids=[row.id for row in held])
    skips = {row.id: row.verdict for row in picked if row.verdict in SKIP_REASONS}
    if skips:
        _SQL["skip"](ids=list(skips), reasons=list(skips.values()))
    if overtaken := by_verdict.get("superseded"):
        _SQL["supersede"](ids=[row.id for row in overtaken])
        skips |= {row.id: row.verdict for row in overtaken}
    done.ended |= skips | _make_way(by_verdict)
    chosen = [row.id for row in by_verdict.get("dispatch", ())]
    rows = _SQL["dispatch"](ids=chosen) if chosen else []
    order = {trigger_id: rank for rank, trigger_id in enumerate(chosen)}
    done.queued += [
        Queued(row.id, row.fence, row.job_type) for row in sorted(rows, key=lambda row: order[row.id])
    ]


def _make_way(by_verdict: Mapping[str, Sequence[Any]]) -> dict[UUID, str]:
    """Park what waits; older ones of its job give way as its policy says. Returns what ended, with the reason."""
    waiting, replacing = by_verdict.get("wait", ()), by_verdict.get("replace", ())
    ended: dict[UUID, str] = {}
    if parked := [row.id for row in (*waiting, *replacing)]:
        _SQL["park"](ids=parked)
    if newest := [row for row in waiting if row.overlap_policy == "collapse"]:
        rows = _SQL["collapse"](
            job_ids=[row.job_id for row in newest], scheduled_fors=[row.scheduled_for for row in newest]
        )
        ended |= {row.id: row.reason for row in rows}
    if replacing:
        rows = _SQL["replace"](ids=[row.id for row in replacing], job_ids=[row.job_id for row in replacing])
        ended |= {row.id: "superseded" for row in rows if row.state == "cancelled"}
    return ended

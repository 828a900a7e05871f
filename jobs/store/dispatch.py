"""Dispatch: who goes next, decided and queued in one transaction under the tenants' locks (DESIGN §8)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jobs.core.states import SKIP_REASONS
from jobs.store import db
from jobs.store.leases import Reign

_SQL = db.queries("dispatch")
#: Jobs at their own limit may hide the due work of others behind theirs: how often one dispatch looks past them.
PICKS = 5


@dataclass(frozen=True, slots=True)
class Queued:
    """A trigger that is committed as ``queued`` and now wants its message."""

    id: UUID
    fence: int
    job_type: str


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What one dispatch did. ``blocked``: due work remains that could not start (a cap, a full window, a wait)."""

    queued: list[Queued] = field(default_factory=list)
    skipped: dict[UUID, str] = field(default_factory=dict)
    blocked: bool = False


def dispatch(*, reign: Reign, caps: Mapping[str, int | None], window: int, limit: int) -> Dispatched:
    """Choose and queue up to ``limit`` due triggers; skip or hold those that are not to run. Opens a transaction.

    ``caps`` maps each job type served to its ``max_in_flight`` (None: unlimited); ``window`` bounds how many of one
    type are queued at once. May be repeated: each call takes others. Commits before it returns, so the caller
    publishes what is durable; what it fails to publish is reaped.
    """
    with db.atomic():
        lanes = [lane for lane in _SQL["due_lanes"]() if lane.job_type in caps]
        if not lanes:
            return Dispatched()
        locked = {
            row.id
            for row in _SQL["lock_tenants"](
                **reign.proof(), tenant_ids=sorted({lane.tenant_id for lane in lanes})
            )
        }
        lanes = [lane for lane in lanes if lane.tenant_id in locked]
        if not lanes:
            return Dispatched(blocked=True)
        queued: list[Queued] = []
        skipped: dict[UUID, str] = {}
        full_jobs: set[UUID] = set()
        for _ in range(PICKS):
            left = limit - len(queued) - len(skipped)
            picked = _pick(lanes, caps, window=window, limit=left, full_jobs=full_jobs)
            queued += _carry_out(picked, skipped)
            waiting = {row.job_id for row in picked if row.verdict == "wait"}
            if not waiting or len(queued) + len(skipped) >= limit:
                break
            full_jobs |= waiting
    return Dispatched(queued=queued, skipped=skipped, blocked=len(queued) + len(skipped) < limit)


def _pick(
    lanes: Sequence[Any], caps: Mapping[str, int | None], *, window: int, limit: int, full_jobs: Set[UUID]
) -> list[Any]:
    return _SQL["pick"](
        tenant_ids=[lane.tenant_id for lane in lanes],
        job_types=[lane.job_type for lane in lanes],
        priorities=[lane.priority for lane in lanes],
        capped_types=list(caps),
        type_caps=list(caps.values()),
        full_jobs=list(full_jobs),
        window=window,
        limit=limit,
    )


def _carry_out(picked: Sequence[Any], skipped: dict[UUID, str]) -> list[Queued]:
    """Hold, skip (noted in ``skipped``) and queue by the verdicts; returns what was queued, in the order picked."""
    chosen = [row.id for row in picked if row.verdict == "dispatch"]
    held = [row.id for row in picked if row.verdict == "hold"]
    skips = {row.id: row.verdict for row in picked if row.verdict in SKIP_REASONS}
    if held:
        _SQL["hold"](ids=held)
    if skips:
        _SQL["skip"](ids=list(skips), reasons=list(skips.values()))
        skipped.update(skips)
    rows = _SQL["dispatch"](ids=chosen) if chosen else []
    order = {trigger_id: rank for rank, trigger_id in enumerate(chosen)}
    return [Queued(row.id, row.fence, row.job_type) for row in sorted(rows, key=lambda row: order[row.id])]


def seconds_to_next_due() -> float | None:
    """Seconds until a trigger that is not due yet falls due; None when none waits."""
    seconds: float | None = _SQL["next_due"]()[0].seconds
    return seconds

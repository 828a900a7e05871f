"""Reap: recover what crashed workers and lost messages left behind (DESIGN §6.4, §7).

An expired lease counts as a crash of the trigger's worker and is judged by the same rule as any failure. Only a trigger
that was alone in its worker's hand is charged for the crash: of a batch, nobody can tell which one it was. Bounded per
call; may be repeated; two reapers at once find the fence moved and do nothing.
"""

import random
from datetime import timedelta
from typing import Any

from jobs.core.policies import Bury, Delivery, after_failure
from jobs.core.states import TriggerState
from jobs.store import reap as store
from jobs.store.execution import Grip, retry_policy_of
from jobs.store.leases import Reign
from jobs.store.reap import Verdict
from jobs.telemetry import get_logger

log = get_logger()
_rng = random.Random()  # noqa: S311


def reap(*, reign: Reign, deadline: timedelta, limit: int) -> int:
    """Reap up to ``limit`` expired leases and as many overdue messages. Returns how many were reaped."""
    verdicts = [judge(row, charged=row.companions == 0) for row in store.expired_leases(limit=limit)]
    reaped = store.reap_running(verdicts, reign=reign)
    for row in reaped:
        log.warning(
            "reap",
            trigger_id=str(row.id),
            state=row.state,
            reason=row.reason,
            cause="lease expired",
            charged=row.charged,
        )
    lost = store.reap_queued(reign=reign, deadline=deadline, limit=limit)
    for row in lost:
        log.warning("reap", trigger_id=str(row.id), state="pending", cause="message never claimed")
    return len(reaped) + len(lost)


def judge(row: Any, *, charged: bool) -> Verdict:
    """What becomes of a trigger whose worker died with it in hand; a row of ``expired_leases`` or of ``claim``.

    ``charged``: it was alone, so that the crash is its own. Without, it costs neither a crash nor an attempt.
    """
    grip = Grip(row.id, row.fence)
    decision = after_failure(
        retry_policy_of(row),
        permanent=False,
        crashed=True,
        attempts=row.attempt_count - row.budget_start - (not charged),
        crash_count=row.crash_count + charged,
        elapsed=row.elapsed,
        delivery=Delivery(row.delivery),
        retry_after=None,
        rng=_rng,
    )
    if getattr(row, "cancel_requested", False):
        return Verdict(grip, TriggerState.CANCELLED, "requested", timedelta(), charged)
    if isinstance(decision, Bury):
        return Verdict(grip, TriggerState.DEAD, decision.reason, timedelta(), charged)
    return Verdict(grip, TriggerState.RETRYING, "", decision.delay, charged)

"""Reap: take work back from workers and messages that are gone. Bounded; may be repeated; safe with two leaders.

A process that dies takes all it had in hand with it, and nothing says which trigger it died of. So only a trigger that
was alone in hand is charged for the crash; the others keep their budget, and each travels alone from then on.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.core.policies import Bury, Cancel, Delivery, after_crash
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.store import db, events
from jobs.store.execution import Grip, retry_policy_of
from jobs.store.leases import Reign
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("reap")
_rng = random.Random()  # noqa: S311


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a trigger whose worker is gone: retrying, dead or cancelled.

    ``charged``: the crash counts, and the attempt does against its budget.
    """

    grip: Grip
    state: TriggerState
    reason: str
    delay: timedelta
    charged: bool = True


def verdict_on(row: Any, *, charged: bool) -> Verdict:
    """What becomes of a trigger whose worker died while it ran (``policies.after_crash``).

    ``row``: of ``expired_leases``, ``in_hand`` or ``execution.claim``. ``charged``: as ``policies.is_charged`` says.
    """
    grip = Grip(row.id, row.fence)
    decision = after_crash(
        retry_policy_of(row),
        charged=charged,
        attempts=row.attempt_count - row.budget_start,
        crash_count=row.crash_count,
        elapsed=row.elapsed,
        delivery=Delivery(row.delivery),
        cancel_requested=getattr(row, "cancel_requested", False),
        rng=_rng,
    )
    if isinstance(decision, Cancel):
        return Verdict(grip, TriggerState.CANCELLED, "requested", timedelta(), charged)
    if isinstance(decision, Bury):
        return Verdict(grip, TriggerState.DEAD, decision.reason, timedelta(), charged)
    return Verdict(grip, TriggerState.RETRYING, "", decision.delay, charged)


@dataclass(frozen=True, slots=True)
class Surrender:
    """A verdict that a stuck process passes on what it has in hand. ``suspect``: its handler had started."""

    verdict: Verdict
    suspect: bool
    attempt_state: AttemptState
    error_code: str
    error_message: str


def expired_leases(*, limit: int) -> list[Any]:
    """Running triggers whose lease is over, with what the decision about them needs."""
    return _SQL["expired_leases"](limit=limit)


def in_hand(grips: Sequence[Grip]) -> list[Any]:
    """What of ``grips`` is still running under its fence, with what the decision about it needs."""
    return _SQL["in_hand"](ids=[grip.id for grip in grips], fences=[grip.fence for grip in grips])


def absolve(grips: Sequence[Grip]) -> None:
    """Take back the crashes that leases were charged for which ran out while their process lived."""
    for row in _SQL["absolve"](ids=[grip.id for grip in grips], fences=[grip.fence for grip in grips]):
        log.info("crash taken back", trigger_id=str(row.id))


def reap_running(verdicts: Sequence[Verdict], *, reign: Reign) -> list[Any]:
    """Carry out verdicts under a new fence; a trigger that was renewed or finished meanwhile is left alone."""
    if not verdicts:
        return []
    with db.atomic():
        rows = _SQL["reap_running"](term=reign.term, **_columns(verdicts))
        _note_ends(rows)
    return rows


def give_up(surrenders: Sequence[Surrender]) -> list[Any]:
    """Carry out what a process about to end itself says of its triggers, in one transaction. May be repeated."""
    with db.atomic():
        rows = _SQL["give_up"](
            **_columns([surrender.verdict for surrender in surrenders]),
            suspects=[surrender.suspect for surrender in surrenders],
            attempt_states=[surrender.attempt_state.value for surrender in surrenders],
            error_codes=[surrender.error_code for surrender in surrenders],
            error_messages=[surrender.error_message for surrender in surrenders],
        )
        _note_ends(rows)
    return rows


def _note_ends(rows: Sequence[Any]) -> None:
    events.note(row.id for row in rows if row.state in ENDED)


def _columns(verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
    return {
        "ids": [verdict.grip.id for verdict in verdicts],
        "fences": [verdict.grip.fence for verdict in verdicts],
        "states": [verdict.state.value for verdict in verdicts],
        "reasons": [verdict.reason for verdict in verdicts],
        "delays": [verdict.delay for verdict in verdicts],
        "charged": [verdict.charged for verdict in verdicts],
    }


def reap_queued(*, reign: Reign, deadline: timedelta, limit: int) -> list[Any]:
    """Return to ``pending`` what was queued longer ago than ``policies.claim_deadline`` of ``deadline``."""
    return _SQL["reap_queued"](term=reign.term, deadline=deadline, limit=limit)

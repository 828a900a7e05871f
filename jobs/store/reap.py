"""Reap: take work back from workers and messages that are gone. Bounded; may be repeated; safe with two leaders.

A process that dies loses all triggers that it had claimed, and nothing says which of them killed it. So only a trigger
that was claimed alone is charged for the crash. The others keep their budget, and each travels alone from then on.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.core.policies import Bury, Cancel, Delivery, after_crash
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.store import db, events
from jobs.store.execution import ClaimToken, retry_policy_of
from jobs.store.insight import activity
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("reap")
_rng = random.Random()  # noqa: S311


@dataclass(frozen=True, slots=True)
class Recovery:
    """The next state of a trigger whose worker is gone: retrying, dead or cancelled.

    ``charged``: the crash counts, and the attempt counts against the trigger's budget.
    """

    token: ClaimToken
    state: TriggerState
    reason: str
    delay: timedelta
    charged: bool = True


def recovery_of(row: Any, *, charged: bool) -> Recovery:
    """Decide the recovery of a trigger whose worker died while it ran (``policies.after_crash``).

    ``row``: a row of ``expired_leases``, ``in_hand`` or ``execution.claim``. ``charged``: by ``policies.is_charged``.
    """
    token = ClaimToken(row.id, row.fence)
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
        return Recovery(token, TriggerState.CANCELLED, "requested", timedelta(), charged)
    if isinstance(decision, Bury):
        return Recovery(token, TriggerState.DEAD, decision.reason, timedelta(), charged)
    return Recovery(token, TriggerState.RETRYING, "", decision.delay, charged)


@dataclass(frozen=True, slots=True)
class Release:
    """The recovery of a trigger that a stuck process has claimed. ``suspect``: its handler had started.

    ``output``: the handler's output.
    """

    recovery: Recovery
    suspect: bool
    attempt_state: AttemptState
    error_code: str
    error_message: str
    output: str | None = None


def expired_leases(*, limit: int) -> list[Any]:
    """Running triggers whose lease is over, with the columns that the decision about them needs."""
    return _SQL["expired_leases"](limit=limit)


def in_hand(tokens: Sequence[ClaimToken]) -> list[Any]:
    """The triggers of ``tokens`` that still run under their fences, with the columns that the decision needs."""
    return _SQL["in_hand"](ids=[token.id for token in tokens], fences=[token.fence for token in tokens])


def absolve(tokens: Sequence[ClaimToken]) -> None:
    """Take back the crash charged for each lease that ran out while its process lived."""
    for row in _SQL["absolve"](ids=[token.id for token in tokens], fences=[token.fence for token in tokens]):
        log.info("crash taken back", trigger_id=str(row.id))


def reap_running(recoveries: Sequence[Recovery], *, leadership: Leadership) -> list[Any]:
    """Carry out recoveries, each under a new fence; a trigger that was renewed or finished meanwhile is left alone."""
    if not recoveries:
        return []
    with db.atomic():
        rows = _SQL["reap_running"](term=leadership.term, **_columns(recoveries))
        _note_ends(rows)
        activity.count_released(rows)
    return rows


def give_up(releases: Sequence[Release]) -> list[Any]:
    """Carry out the releases of a process that is about to end itself, in one transaction. May be repeated."""
    with db.atomic():
        rows = _SQL["give_up"](
            **_columns([release.recovery for release in releases]),
            suspects=[release.suspect for release in releases],
            attempt_states=[release.attempt_state.value for release in releases],
            error_codes=[release.error_code for release in releases],
            error_messages=[release.error_message for release in releases],
            outputs=[release.output for release in releases],
        )
        _note_ends(rows)
        activity.count_released(rows)
    return rows


def _note_ends(rows: Sequence[Any]) -> None:
    events.note(row.id for row in rows if row.state in ENDED)


def _columns(recoveries: Sequence[Recovery]) -> dict[str, list[Any]]:
    return {
        "ids": [recovery.token.id for recovery in recoveries],
        "fences": [recovery.token.fence for recovery in recoveries],
        "states": [recovery.state.value for recovery in recoveries],
        "reasons": [recovery.reason for recovery in recoveries],
        "delays": [recovery.delay for recovery in recoveries],
        "charged": [recovery.charged for recovery in recoveries],
    }


def reap_queued(*, leadership: Leadership, deadline: timedelta, limit: int) -> list[Any]:
    """Return to ``pending`` the triggers queued longer ago than ``policies.claim_deadline`` of ``deadline``."""
    rows = _SQL["reap_queued"](term=leadership.term, deadline=deadline, limit=limit)
    activity.count(rows, "messages_lost")
    return rows

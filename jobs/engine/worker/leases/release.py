"""Release: decide about the triggers that a process still has claimed when it ends or was ended.

``row`` is one of ``execution.claim`` or ``reap.in_hand``: both hold the columns that the retry decision needs.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from jobs.core.states import AttemptState, TriggerState
from jobs.store import db, execution, reap
from jobs.store.execution import ClaimToken
from jobs.store.reap import Recovery, Release, recovery_of
from jobs.telemetry import get_logger

log = get_logger()


def give_up(releases: Sequence[Release]) -> None:
    """Carry out the releases. Triggers that are not ours any more are left alone."""
    for row in reap.give_up(releases) if releases else ():
        log.warning("give up", trigger_id=str(row.id), state=row.state, reason=row.reason)


def absolve(tokens: Sequence[ClaimToken]) -> None:
    """Say that the process which lost these leases lives, so that no crash is charged. Tried once."""
    try:
        if tokens:
            reap.absolve(tokens)
    except db.TRANSIENT as error:
        db.note_away(error, what="absolve")


def note_stopping(tokens: Sequence[ClaimToken]) -> bool:
    """Put on record that this worker was told to stop. Returns whether that succeeded."""
    try:
        execution.note_stopping(tokens)
    except db.TRANSIENT as error:
        db.note_away(error, what="note stopping")
        return False
    return True


def handed_back(row: Any, *, started: bool) -> Release:
    """The trigger goes to another worker at once and uncharged, unless it started and may not be started twice."""
    recovery = recovery_of(row, charged=False) if started else None
    if recovery is None or recovery.state is TriggerState.RETRYING:
        recovery = Recovery(
            ClaimToken(row.id, row.fence), TriggerState.RETRYING, "", timedelta(), charged=False
        )
    message = "Its worker was told to stop, and the attempt had not ended within CARILLON_DRAIN_SECONDS."
    return Release(recovery, False, AttemptState.LOST, "handed_back", message)


def abandoned(row: Any, *, started: bool, alone: bool, cancelled: bool) -> Release:
    """The release of a trigger of a stuck process. One handler alone is to blame; of several any may be.

    ``cancelled``: a wish to cancel is on record, and it wins over the retry.
    """
    token = ClaimToken(row.id, row.fence)
    if started and cancelled:
        recovery = Recovery(token, TriggerState.RETRYING, "", timedelta(), charged=False)
        message = "The handler ignored the cancel: its process was ended."
        return Release(recovery, False, AttemptState.CANCELLED, "cancelled", message)
    if not started:
        recovery = Recovery(token, TriggerState.RETRYING, "", timedelta(), charged=False)
        message = "Another trigger of the same batch got stuck; this one had not started."
        return Release(recovery, False, AttemptState.LOST, "batch_abandoned", message)
    recovery = recovery_of(row, charged=alone)
    if not alone:
        message = (
            "One of the handlers that ran at once got stuck, perhaps this one. It is dispatched alone from "
            "now on."
        )
        return Release(recovery, True, AttemptState.LOST, "batch_abandoned", message)
    message = f"The handler ignored its timeout of {row.timeout.total_seconds():g} s: its process was ended."
    return Release(recovery, True, AttemptState.TIMED_OUT, "timeout", message)

"""Reap: take work back from workers and messages that are gone. Bounded; may be repeated; safe with two leaders.

A process that dies takes all it had in hand with it, and nothing says which trigger it died of. So only a trigger that
was alone in hand is charged for the crash; the others keep their budget, and each travels alone from then on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.core.states import AttemptState, TriggerState
from jobs.store import db
from jobs.store.execution import Grip
from jobs.store.leases import Reign

_SQL = db.queries("reap")


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


def reap_running(verdicts: Sequence[Verdict], *, reign: Reign) -> list[Any]:
    """Carry out verdicts under a new fence; a trigger that was renewed or finished meanwhile is left alone."""
    if not verdicts:
        return []
    return _SQL["reap_running"](**reign.proof(), **_columns(verdicts))


def give_up(surrenders: Sequence[Surrender]) -> list[Any]:
    """Carry out what a process that is about to end itself says of its triggers, in one statement. May be repeated."""
    return _SQL["give_up"](
        **_columns([surrender.verdict for surrender in surrenders]),
        suspects=[surrender.suspect for surrender in surrenders],
        attempt_states=[surrender.attempt_state.value for surrender in surrenders],
        error_codes=[surrender.error_code for surrender in surrenders],
        error_messages=[surrender.error_message for surrender in surrenders],
    )


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
    """Return to ``pending`` what was queued longer ago than ``deadline`` (doubling with each unclaimed dispatch)."""
    return _SQL["reap_queued"](**reign.proof(), deadline=deadline, limit=limit)

"""Reap: take work back from workers and messages that are gone. Bounded; may be repeated; safe with two leaders."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.core.states import TriggerState
from jobs.store import db
from jobs.store.execution import Grip
from jobs.store.leases import Reign

_SQL = db.queries("reap")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a trigger whose lease expired: retrying, dead or cancelled."""

    grip: Grip
    state: TriggerState
    reason: str
    delay: timedelta


def expired_leases(*, limit: int) -> list[Any]:
    """Running triggers whose lease is over, with what the decision about them needs."""
    return _SQL["expired_leases"](limit=limit)


def reap_running(verdicts: Sequence[Verdict], *, reign: Reign) -> list[Any]:
    """Carry out verdicts under a new fence; a trigger that was renewed or finished meanwhile is left alone."""
    if not verdicts:
        return []
    return _SQL["reap_running"](
        **reign.proof(),
        ids=[verdict.grip.id for verdict in verdicts],
        fences=[verdict.grip.fence for verdict in verdicts],
        states=[verdict.state.value for verdict in verdicts],
        reasons=[verdict.reason for verdict in verdicts],
        delays=[verdict.delay for verdict in verdicts],
    )


def reap_queued(*, reign: Reign, deadline: timedelta, limit: int) -> list[Any]:
    """Return to ``pending`` what was queued longer ago than ``deadline`` (doubling with each unclaimed dispatch)."""
    return _SQL["reap_queued"](**reign.proof(), deadline=deadline, limit=limit)

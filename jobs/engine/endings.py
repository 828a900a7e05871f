"""The log lines of attempts that ended, and of triggers that ended without one (docs/operations.md, "Logs"), and the
spans of those attempts (docs/traces.md).

The event says how the trigger went on. A process writes at most ten such lines a second, and each says how many it
stands for: ``attempts``, or ``triggers``. At the level DEBUG each attempt or trigger has its own line. No line has the
error's message: the message repeats values from handlers and targets, such as the value that ``int`` refused.
"""

import logging
import os
from functools import cache
from typing import Any, NamedTuple, Protocol

from jobs.core.states import AttemptState, TriggerState
from jobs.engine.traces import Ran, record_ended, record_lost
from jobs.store.execution import Finish
from jobs.telemetry import NAME, Sampled, get_logger
from jobs.telemetry.traces import send_the_rest
from jobs.telemetry.traces.w3c import TraceContext

log = get_logger()
#: The logger to ask for levels, once per attempt: structlog's own takes a microsecond to answer.
_logger = logging.getLogger(NAME)
STALE = "stale"
#: The event of an ended attempt, by the state that its trigger came to.
_VERBS = {
    TriggerState.SUCCEEDED: "succeed",
    TriggerState.RETRYING: "retry",
    TriggerState.DEAD: "bury",
    TriggerState.CANCELLED: "cancel",
}
_LEVELS = {"bury": logging.WARNING, STALE: logging.WARNING, "reap": logging.WARNING}


class Told(Protocol):
    """The source of a line's keys, which are made when the line is written."""

    def keys(self, count: int) -> dict[str, Any]: ...


class Ended(NamedTuple):
    """An attempt of the claimed ``row``, as it was written: when its handler ran, and its trace."""

    row: Any
    finish: Finish
    ran: Ran
    trace: TraceContext | None = None
    is_stale: bool = False

    def keys(self, count: int) -> dict[str, Any]:
        finish, keys = self.finish, _of_attempt(self.row, self.ran.ended)
        if self.trace is not None:
            keys["trace_id"] = self.trace.trace_id
        keys["outcome"] = STALE if self.is_stale else finish.attempt_state.value
        if finish.error_code:
            keys |= {"error": finish.error_code, "error_class": finish.error_class}
        if finish.reason:
            keys["reason"] = finish.reason
        if finish.state is TriggerState.RETRYING:
            keys["delay_seconds"] = finish.delay.total_seconds()
        return keys | {"attempts": count}


class Lost(NamedTuple):
    """An attempt whose lease expired: its ``row`` of ``expired_leases``, and ``reaped``, the result of its reap."""

    row: Any
    reaped: Any

    def keys(self, count: int) -> dict[str, Any]:
        row, reaped = self.row, self.reaped
        keys = _of_attempt(row, row.ran.total_seconds()) if row.attempt_id else {"trigger_id": str(row.id)}
        keys |= {"outcome": AttemptState.LOST.value, "cause": "lease expired", "charged": reaped.charged}
        return keys | {"state": reaped.state, "reason": reaped.reason, "attempts": count}


class Unstarted(NamedTuple):
    """A trigger without an attempt. ``about`` says why."""

    trigger_id: Any
    about: dict[str, str]

    def keys(self, count: int) -> dict[str, Any]:
        return {"trigger_id": str(self.trigger_id), **self.about, "triggers": count}


def _of_attempt(row: Any, seconds: float) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "job_id": str(row.job_id),
        "trigger_id": str(row.id),
        "attempt_id": str(row.attempt_id),
        "attempt": row.attempt_count,
        "fence": row.fence,
        "job_type": row.job_type,
        "scheduled_for": row.scheduled_for.isoformat(),
        "lag_seconds": round((row.attempt_started_at - row.due_at).total_seconds(), 3),
        "duration_seconds": round(seconds, 3),
    }


def tell(ended: Ended, state: TriggerState | None) -> None:
    """Tell of an ended attempt whose trigger came to ``state``; None: the trigger was not ours any more."""
    if state is None:
        _tell(STALE, ended._replace(is_stale=True))
    else:
        record_ended(ended.row, ended.trace, ended.finish, state, ended.ran)
        _tell(_VERBS[state], ended)


def tell_lost(row: Any, reaped: Any) -> None:
    """Tell of an attempt that was reaped."""
    record_lost(row, reaped.state, reaped.reason)
    _tell("reap", Lost(row, reaped))


def tell_unstarted(verb: str, trigger_id: Any, **about: str) -> None:
    """Tell of a trigger that ended, or goes back, without an attempt."""
    _tell(verb, Unstarted(trigger_id, about), kind=f"{verb} unstarted")


def tell_the_rest() -> None:
    """Write the lines and spans that are left: the process is about to end."""
    _sampled().flush()
    send_the_rest()


def _tell(verb: str, told: Told, kind: str = "") -> None:
    if not _logger.isEnabledFor(_LEVELS.get(verb, logging.INFO)):
        return
    if _logger.isEnabledFor(logging.DEBUG):
        _write(verb, told, 1)
    else:
        _sampled().note(kind or verb, told)


def _write(kind: str, told: Told, count: int) -> None:
    verb = kind.partition(" ")[0]
    log.log(_LEVELS.get(verb, logging.INFO), verb, **told.keys(count))


@cache
def _sampled() -> Sampled[Told]:
    return Sampled(_write)


# A lock that another thread held at the fork would stay locked in the child.
os.register_at_fork(after_in_child=_sampled.cache_clear)

"""The line of an ended attempt, in the log of the process that wrote its outcome (docs/operations.md, "Logs").

Its event is what became of the trigger. At most ten a second are written, and each says by ``attempts`` how many ended
attempts it stands for; at the level DEBUG there is one for each. The error's message is in none of them: it holds what
handlers and targets say, such as the value that ``int`` refused.
"""

import logging
import os
from functools import cache
from typing import Any, NamedTuple

from jobs.core.states import TriggerState
from jobs.store.execution import Finish
from jobs.telemetry import NAME, Sampled, get_logger

log = get_logger()
#: What is asked for levels, once an attempt: structlog's own takes a microsecond to answer.
_logger = logging.getLogger(NAME)
STALE = "stale"
#: What is told of an attempt by the state that its trigger came to.
_VERBS = {
    TriggerState.SUCCEEDED: "succeed",
    TriggerState.RETRYING: "retry",
    TriggerState.DEAD: "bury",
    TriggerState.CANCELLED: "cancel",
}
_LEVELS = {"bury": logging.WARNING, STALE: logging.WARNING}


class Ended(NamedTuple):
    """An attempt of the claimed ``row``, as it was written. It ran ``seconds`` from its claim to its outcome."""

    row: Any
    finish: Finish
    seconds: float


def tell(ended: Ended, state: TriggerState | None) -> None:
    """Tell of an ended attempt whose trigger came to ``state``; None: it was not ours any more."""
    verb = STALE if state is None else _VERBS[state]
    if not _logger.isEnabledFor(_LEVELS.get(verb, logging.INFO)):
        return
    if _logger.isEnabledFor(logging.DEBUG):
        _write(verb, ended, 1)
    else:
        _sampled().note(verb, ended)


def tell_the_rest() -> None:
    """Write what is left to tell of: the process is about to end."""
    _sampled().flush()


def _write(verb: str, ended: Ended, attempts: int) -> None:
    row, finish, seconds = ended
    keys = {
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
        "outcome": STALE if verb == STALE else finish.attempt_state.value,
    }
    if finish.error_code:
        keys |= {"error": finish.error_code, "error_class": finish.error_class}
    if finish.reason:
        keys["reason"] = finish.reason
    if verb == "retry":
        keys["delay_seconds"] = finish.delay.total_seconds()
    log.log(_LEVELS.get(verb, logging.INFO), verb, **keys, attempts=attempts)


@cache
def _sampled() -> Sampled[Ended]:
    return Sampled(_write)


# A lock that another thread held at the fork would stay locked in the child.
os.register_at_fork(after_in_child=_sampled.cache_clear)

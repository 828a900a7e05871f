"""``carillon.wait``: a task of a workflow whose time has come. A type of Carillon's own (ADR 32).

The database makes its trigger due when the wait is over. A signal or an approval that comes earlier ends the trigger,
so the trigger never reaches this handler.
"""

from typing import Any

from jobs.core.errors import InvalidInput
from jobs.core.instants import LATEST, OUT_OF_BOUNDS, parse_instant
from jobs.core.workflows.states import WAIT_TYPE
from jobs.handlers.context import Context
from jobs.handlers.outcome import Permanent
from jobs.handlers.registry import job_type


@job_type(WAIT_TYPE, timeout_seconds=30, batch_size=200)
def wait(ctx: Context, payload: dict[str, Any]) -> None:
    """End a wait for an instant, or fail the one for a signal or an approval that did not come in time."""
    if payload["type"] != "time":
        awaited = f"signal {payload['name']}" if payload["type"] == "signal" else "approval"
        raise Permanent(f"No {awaited} came within {payload['timeout_seconds']:g} s.", code="wait_timed_out")
    if "until" not in payload:
        return
    # It may come from the result of another task.
    try:
        until = parse_instant(payload["until"])
    except InvalidInput as error:
        raise Permanent(f"payload.until: {' '.join(error.errors[''])}", code="invalid_payload") from None
    if until > LATEST:
        raise Permanent(f"payload.until: {OUT_OF_BOUNDS}", code="invalid_payload")

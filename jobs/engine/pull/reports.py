"""Heartbeat and complete: a pull worker's reports on the triggers it holds, each under the fence of its claim.

A report that comes too late changes only its own attempt, which is kept as ``stale``. All reports may be repeated: the
same completion gets the same answer, however often it comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.conf import engine_settings
from jobs.core.errors import Conflict, NotFound
from jobs.core.states import AttemptState, TriggerState
from jobs.engine.traces import trace_of
from jobs.engine.worker.finisher import Finisher
from jobs.handlers import outcome as outcomes
from jobs.handlers.outcome import Outcome
from jobs.models import Attempt, Trigger
from jobs.store import db, execution, pull
from jobs.store.execution import ClaimToken, Finish
from jobs.telemetry.output import Said, stored

#: Completions that may be repeated: the states that a worker's report gives an attempt.
_REPORTED = {
    "succeeded": AttemptState.SUCCEEDED,
    "failed": AttemptState.FAILED,
    "cancelled": AttemptState.CANCELLED,
}


class StaleFence(Conflict):
    """The trigger moved on under another fence: its worker must stop (HTTP 409)."""


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """One line of a heartbeat. ``progress`` and ``checkpoint`` as ``Context`` takes them; None: no change.

    ``said``: the handler's whole output so far.
    """

    token: ClaimToken
    progress: dict[str, Any] | None = None
    checkpoint: dict[str, Any] | None = None
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The final facts of a completed attempt: every repetition gets the same answer."""

    trigger_id: UUID
    fence: int
    attempt_id: UUID
    attempt_number: int
    attempt_state: AttemptState


def heartbeat(*, tenant_id: int, reports: Sequence[AttemptReport]) -> dict[UUID, str]:
    """Prolong the leases of held triggers. Returns for each trigger ``held``, ``cancel``, ``timed_out`` or ``lost``.

    ``cancel``: still held, but asked to stop. A trigger that has used up its job's time-out ends here as ``timed_out``,
    or as cancelled if a cancel was requested. A trigger of another tenant is ``lost``, as one that never existed. Opens
    a transaction; may be repeated.
    """
    with db.atomic():
        rows = pull.hold(tenant_id=tenant_id, tokens=[report.token for report in reports])
        overdue = {row.id: row for row in rows if row.overdue}
        said = {report.token: text for report in reports if (text := stored(report.said))}
        pull.keep_output(
            [(row, said[token]) for row in rows if (token := ClaimToken(row.id, row.fence)) in said]
        )
        _end_overdue(list(overdue.values()))
        kept = [ClaimToken(row.id, row.fence) for row in rows if row.id not in overdue]
        ours = execution.renew(tokens=kept, lease=engine_settings().worker_lease) if kept else {}
        for report in reports:
            if report.token in kept and (report.progress is not None or report.checkpoint is not None):
                execution.note_progress(
                    token=report.token, progress=report.progress, checkpoint=report.checkpoint
                )
    held = {token: "cancel" if ours[token.id] else "held" for token in kept if token.id in ours}
    held |= {ClaimToken(row.id, row.fence): "timed_out" for row in overdue.values()}
    return {report.token.id: held.get(report.token, "lost") for report in reports}


def complete(*, tenant_id: int, token: ClaimToken, outcome: Outcome) -> Completed:
    """Write how an attempt ended, and the consequence: a retry, a dead letter, the end.

    Raises ``NotFound``, ``StaleFence``, and ``Conflict`` when the attempt was completed otherwise before, or when the
    outcome is cancelled without a request to cancel. Opens a transaction; may be repeated.
    """
    with db.atomic():
        rows = pull.hold(tenant_id=tenant_id, tokens=[token])
        if rows:
            return _finish(rows[0], outcome)
        attempt = _attempt_under(tenant_id, token)
        if attempt is not None and attempt.state == AttemptState.LOST:
            _keep_as_stale(attempt, outcome)
            attempt = None
    if attempt is None or attempt.state == AttemptState.STALE:
        raise StaleFence("The trigger is no longer yours under this fence: stop, another worker may run it.")
    if attempt.state != _REPORTED[outcome.kind]:
        raise Conflict(f"The attempt has already ended: it is {attempt.state}.")
    return _completed(attempt)


def _finish(row: Any, outcome: Outcome) -> Completed:
    if outcome.kind == "cancelled" and not row.cancel_requested:
        raise Conflict("No cancel was requested; report succeeded or failed.", field="outcome")
    finisher = Finisher(flush_seconds=0)
    finisher.add(row, outcome, seconds=row.ran.total_seconds(), trace=trace_of(row))
    finisher.flush()
    return Completed(row.id, row.fence, row.attempt_id, row.attempt_count, _REPORTED[outcome.kind])


def _end_overdue(rows: Sequence[Any]) -> None:
    finisher = Finisher(flush_seconds=0)
    for row in rows:
        finisher.add(row, _overstayed(row), seconds=row.ran.total_seconds(), trace=trace_of(row))
    finisher.flush()


def _overstayed(row: Any) -> Outcome:
    if row.cancel_requested:
        return outcomes.cancelled(message="The worker ignored the cancel until the time-out.")
    return outcomes.timed_out(limit=row.timeout)


def _attempt_under(tenant_id: int, token: ClaimToken) -> Attempt | None:
    """The attempt made under the token's fence, if any. Raises ``NotFound`` when the trigger is not the tenant's."""
    if not Trigger.objects.filter(tenant_id=tenant_id, id=token.id).exists():
        raise NotFound("There is no such trigger.")
    made = Attempt.objects.select_related("trigger").filter(
        trigger_id=token.id, tenant_id=tenant_id, fence=token.fence
    )
    return made.order_by("-number").first()


def _keep_as_stale(attempt: Attempt, outcome: Outcome) -> None:
    """A late outcome is kept, and changes nothing else (DESIGN §2.3)."""
    execution.finish(
        [
            Finish(
                token=ClaimToken(attempt.trigger_id, attempt.fence),
                attempt_id=attempt.id,
                attempt_started_at=attempt.started_at,
                state=TriggerState.SUCCEEDED,
                attempt_state=AttemptState.STALE,
                delay=timedelta(),
                error_code=outcome.error_code,
                error_class=outcome.error_class,
                error_message=outcome.error_message,
                traceback=outcome.traceback,
                http_status=outcome.http_status,
                response_excerpt=outcome.response_excerpt,
                output=stored(outcome.said),
                tenant_id=attempt.tenant_id,
                job_type=attempt.trigger.job_type,
            )
        ]
    )


def _completed(attempt: Attempt) -> Completed:
    return Completed(
        attempt.trigger_id, attempt.fence, attempt.id, attempt.number, AttemptState(attempt.state)
    )

"""The trace that an attempt is part of, and the spans of the attempt (docs/traces.md).

Spans are recorded where attempts end, from the instants in the trigger's row. A beat's turn, a dispatch and a claim
have nothing to record. All ids follow from those of the trigger and the attempt, so any process may record any span: a
worker, the web process that a pull worker reports to, the beat that reaps. Instants are the database's. Times that a
process measured itself are added to the instant of the claim.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs.core.instants import instant_text
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.handlers import registry
from jobs.handlers.registry import UnknownJobType
from jobs.models import Origin
from jobs.store.execution import Finish
from jobs.telemetry import Outage, traces
from jobs.telemetry.traces import w3c
from jobs.telemetry.traces.w3c import SAMPLED, TraceContext

if TYPE_CHECKING:
    from jobs.telemetry.traces.spans import Span

_unrecorded = Outage("spans not recorded")
_LOW_64 = (1 << 64) - 1
#: The instants of a catch-up or a backfill lie long before they are due.
_DUE_AS_SCHEDULED = (Origin.SCHEDULE, Origin.RUN_NOW, Origin.RUN_BESIDE)


class Ran(NamedTuple):
    """When a handler ran, in seconds since its claim, and the reading of the process's monotonic clock at its end."""

    began: float
    ended: float
    ended_at: float


def trace_of(row: Any) -> TraceContext | None:
    """The trace that the attempt of the claimed ``row`` is part of, with its handler's span: the context to pass on.

    It is the trace of the caller that asked for the trigger, recorded or not. A trigger that no caller asked for, or
    whose caller had no trace, has a trace of its own if that is recorded, and another one for each replay. Tasks of a
    workflow's run share one trace.
    """
    caller = w3c.recall(row.trace) if row.trace is not None else None
    recorder = traces.recorder()
    if recorder is None:
        return caller
    trace_id = caller.trace_id if caller is not None else _own_ids(row)[0]
    sampled = recorder.samples(trace_id, caller=caller, tenant=row.tenant)
    if caller is None:
        return TraceContext(trace_id, _handler_id(row), SAMPLED) if sampled else None
    if not sampled:
        return caller._replace(flags=caller.flags & ~SAMPLED)
    return caller._replace(span_id=_handler_id(row), flags=caller.flags | SAMPLED)


def record_ended(row: Any, trace: TraceContext | None, finish: Finish, state: TriggerState, ran: Ran) -> None:
    """Record the attempt of the claimed ``row``, whose trigger is in ``state`` now; ``trace``: from ``trace_of``."""
    if (recorder := traces.recorder()) is None or trace is None or not trace.is_sampled:
        return
    try:
        recorder.record(trace, _spans_of_ended(_Attempt(row, trace), finish, state, ran))
    except Exception as error:  # noqa: BLE001 - a trace is worth no outcome
        _unrecorded.failed(error)
    else:
        _unrecorded.over()


def record_lost(row: Any, state: TriggerState, reason: str) -> None:
    """Record an attempt that was reaped, a ``row`` of ``expired_leases``: its worker is gone, or was too late."""
    if (recorder := traces.recorder()) is None or row.attempt_id is None:
        return
    try:
        trace = trace_of(row)
        if trace is not None and trace.is_sampled:
            recorder.record(trace, _spans_of_lost(_Attempt(row, trace), state, reason))
    except Exception as error:  # noqa: BLE001 - as above
        _unrecorded.failed(error)
    else:
        _unrecorded.over()


def _spans_of_ended(attempt: "_Attempt", finish: Finish, state: TriggerState, ran: Ran) -> Iterator["Span"]:
    claimed = attempt.row.attempt_started_at
    ended = claimed + timedelta(seconds=ran.ended)
    written = ended + timedelta(seconds=time.monotonic() - ran.ended_at)
    about: dict[str, Any] = {"carillon.outcome": finish.attempt_state.value}
    if finish.http_status is not None:
        about["http.response.status_code"] = finish.http_status
    yield from attempt.before()
    yield attempt.handler(claimed + timedelta(seconds=ran.began), ended, about, finish.error_code)
    yield attempt.step("finish", ended, written)
    yield from attempt.firing(written, state, finish.reason)


def _spans_of_lost(attempt: "_Attempt", state: TriggerState, reason: str) -> Iterator["Span"]:
    claimed = attempt.row.attempt_started_at
    reaped = claimed + attempt.row.ran
    about = {"carillon.outcome": AttemptState.LOST.value}
    yield from attempt.before()
    yield attempt.handler(claimed, reaped, about, "lease_expired")
    yield from attempt.firing(reaped, state, reason)


class _Attempt:
    """Makes the spans of an attempt. Each span of the wait before it begins where the previous span ended."""

    def __init__(self, row: Any, trace: TraceContext) -> None:
        from jobs.telemetry.traces.spans import Span  # only where it is recorded

        self._span: type[Span] = Span
        self.row, self._trace = row, trace
        self._firing_id = _own_ids(row)[1]
        self._number = {"carillon.attempt": row.attempt_count}
        self._created = _instant(row.created)
        self._expected_at = self._expected()

    def _expected(self) -> datetime:
        """When the firing was expected: as scheduled, or when it was asked for."""
        row, claimed = self.row, self.row.attempt_started_at
        expected = row.due_at
        if row.attempt_count > 1 and row.replay_count:
            # Once an attempt has failed, nothing tells when the replay was asked for: take its first claim.
            expected = min(row.due_at, claimed + getattr(row, "ran", timedelta()) - row.elapsed)
        elif row.attempt_count > 1:
            expected = row.scheduled_for if row.origin in _DUE_AS_SCHEDULED else self._created
        earliest: datetime = min(expected, claimed)
        return earliest

    def before(self) -> Iterator["Span"]:
        """How long the attempt waited, and for which step."""
        row = self.row
        due, claimed = min(row.due_at, row.attempt_started_at), row.attempt_started_at
        queued = min(_instant(row.queued), claimed) if row.queued is not None else claimed
        if row.attempt_count == 1 and not row.replay_count:
            created = min(max(self._created, due), queued)
            about = {"carillon.created_at": instant_text(self._created)}
            yield self.step("materialize", due, created, about)
            due = created
        yield self.step("dispatch", min(due, queued), queued)
        yield self.step("claim", queued, claimed)

    def step(self, name: str, start: datetime, end: datetime, about: dict[str, Any] | None = None) -> "Span":
        digest = blake2b(self.row.attempt_id.bytes + name.encode(), digest_size=8).hexdigest()
        return self._span(name, digest, self._firing_id, start, end, self._number | (about or {}))

    def handler(self, start: datetime, end: datetime, about: dict[str, Any], error: str) -> "Span":
        row = self.row
        told = (
            self._number
            | about
            | {
                "carillon.attempt_id": str(row.attempt_id),
                "carillon.fence": row.fence,
                "carillon.job_type": row.job_type,
            }
        )
        kind = _kind_of(row.job_type)
        return self._span("handler", self._trace.span_id, self._firing_id, start, end, told, kind, error)

    def firing(self, end: datetime, state: TriggerState, reason: str) -> Iterator["Span"]:
        """The span around all others, once the trigger has ended."""
        if state not in ENDED:
            return
        row = self.row
        about = {
            "carillon.tenant": row.tenant,
            "carillon.job_id": str(row.job_id),
            "carillon.job_name": row.job_name,
            "carillon.job_type": row.job_type,
            "carillon.trigger_id": str(row.id),
            "carillon.origin": row.origin,
            "carillon.scheduled_for": instant_text(row.scheduled_for),
            "carillon.attempts": row.attempt_count,
            "carillon.state": str(state),
        }
        if reason:
            about["carillon.reason"] = reason
        caller = w3c.recall(row.trace) if row.trace is not None else None
        parent = caller.span_id if caller is not None else ""
        error = reason if state == TriggerState.DEAD else ""
        yield self._span("firing", self._firing_id, parent, self._expected_at, end, about, "internal", error)


def _own_ids(row: Any) -> tuple[str, str]:
    """The ids of a trigger's own trace, or of its workflow run's trace, and of its firing's span."""
    digest = blake2b(row.id.bytes + row.replay_count.to_bytes(4, "big"), digest_size=24).hexdigest()
    if row.workflow_run_id is not None:
        return blake2b(row.workflow_run_id.bytes, digest_size=16).hexdigest(), digest[32:]
    return digest[:32], digest[32:]


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _handler_id(row: Any) -> str:
    return f"{row.attempt_id.int & _LOW_64:016x}"


def _kind_of(job_type: str) -> str:
    """Whether another party's span follows from the handler's: the target's, or the span of the message's taker."""
    try:
        known = registry.get(job_type)
    except UnknownJobType:  # a tenant declared it, for its pull workers
        return "producer"
    if known.sends_to is not None:
        return "producer"
    return "client" if known.target is not None else "internal"

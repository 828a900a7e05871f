"""Finish: turn handlers' outcomes into state, grouped into one statement per flush (DESIGN §7.3).

Outcomes wait at most ``flush_seconds`` before they are written, by whichever thread comes first: the batch's own, or
the lease keeper's while a handler keeps the batch's busy. A write that fails keeps its outcomes for the next try, as
each is a CAS that may be repeated; the lease bounds how long that is worth it.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jobs.core.policies import Bury, Delivery, after_failure
from jobs.core.states import AttemptState, TriggerState
from jobs.crash_points import crash_point
from jobs.handlers.outcome import Outcome
from jobs.store import db, execution
from jobs.store.execution import Finish, Grip
from jobs.telemetry import get_logger
from jobs.wakeups import wake_beats

log = get_logger()
_rng = random.Random()  # noqa: S311
_ATTEMPT_STATES = {
    "succeeded": AttemptState.SUCCEEDED,
    "failed": AttemptState.FAILED,
    "timed_out": AttemptState.TIMED_OUT,
    "cancelled": AttemptState.CANCELLED,
}


def to_finish(row: Any, outcome: Outcome) -> Finish:
    """What is to be written for ``outcome`` of the claimed ``row``: the retry decision is made here."""
    state, reason, delay = TriggerState.SUCCEEDED, "", None
    if outcome.kind == "cancelled":
        state, reason = TriggerState.CANCELLED, "requested"
    elif outcome.kind != "succeeded":
        decision = after_failure(
            execution.retry_policy_of(row),
            permanent=outcome.permanent,
            crashed=False,
            attempts=row.attempt_count - row.budget_start,
            crash_count=row.crash_count,
            elapsed=row.elapsed,
            delivery=Delivery(row.delivery),
            retry_after=outcome.retry_after,
            rng=_rng,
        )
        if isinstance(decision, Bury):
            state, reason = TriggerState.DEAD, decision.reason
        else:
            state, delay = TriggerState.RETRYING, decision.delay
    return Finish(
        grip=Grip(row.id, row.fence),
        attempt_id=row.attempt_id,
        attempt_started_at=row.attempt_started_at,
        state=state,
        attempt_state=_ATTEMPT_STATES[outcome.kind],
        reason=reason,
        **({"delay": delay} if delay is not None else {}),
        result=outcome.result,
        error_code=outcome.error_code[:64],
        error_class=outcome.error_class[:200],
        error_message=outcome.error_message,
        traceback=outcome.traceback,
        http_status=_status_or_none(outcome.http_status),
        response_excerpt=outcome.response_excerpt,
        watched=row.watched,
    )


def _status_or_none(status: object) -> int | None:
    """A handler may raise with any status; one that cannot be stored must not cost its whole batch."""
    return status if type(status) is int and 0 < status < 1000 else None


class Finisher:
    """Gathers the outcomes of one batch and writes them in groups. ``counts`` sums up what became of them."""

    def __init__(self, *, flush_seconds: float) -> None:
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._gathered: list[tuple[Any, Finish, bool]] = []
        self._since = 0.0
        self.counts: Counter[str] = Counter()

    def add(self, row: Any, outcome: Outcome) -> None:
        """Gather one outcome; it is written with the next flush."""
        item = (row, to_finish(row, outcome), outcome.pause_job)
        with self._lock:
            if not self._gathered:
                self._since = time.monotonic()
            self._gathered.append(item)

    def flush_if_due(self) -> None:
        """Write when the oldest outcome has waited long enough."""
        if self._gathered and time.monotonic() - self._since >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write everything gathered, in one statement. Raises what the database raises and then keeps the outcomes."""
        with self._writing:
            with self._lock:
                items, self._gathered = self._gathered, []
            if not items:
                return
            crash_point("finish.before_commit")
            try:
                states = self._write(items)
            except db.DISCONNECTED:
                with self._lock:
                    self._gathered = items + self._gathered
                raise
        crash_point("finish.after_commit")
        for row, finish, _ in items:
            state = states.get(row.id)
            self._note(row, finish, state)
            if state is TriggerState.RETRYING:
                wake_beats(due_in=finish.delay)
                crash_point("finish.after_publish")

    @staticmethod
    def _write(items: Sequence[tuple[Any, Finish, bool]]) -> dict[Any, TriggerState]:
        finishes = [finish for _, finish, _ in items]
        if not any(gone for _, _, gone in items):
            return execution.finish(finishes)
        with db.atomic():  # repeated after an uncertain commit, finish would not know its triggers again
            states = execution.finish(finishes)
            execution.pause_gone([row.job_id for row, _, gone in items if gone and row.id in states])
        return states

    def _note(self, row: Any, finish: Finish, state: TriggerState | None) -> None:
        self.counts["stale" if state is None else state.value] += 1
        if state is TriggerState.SUCCEEDED and not log.isEnabledFor(logging.DEBUG):
            return  # the hot path: events nobody asked for would cost as much as the write
        ids = {
            "tenant": row.tenant,
            "job_id": str(row.job_id),
            "trigger_id": str(row.id),
            "attempt_id": str(row.attempt_id),
            "fence": row.fence,
        }
        if state is TriggerState.SUCCEEDED:
            log.debug("succeed", **ids)
        elif state is TriggerState.RETRYING:
            log.info("retry", delay_seconds=finish.delay.total_seconds(), error=finish.error_message, **ids)
        elif state is TriggerState.DEAD:
            log.warning("bury", reason=finish.reason, error=finish.error_message, **ids)
        elif state is TriggerState.CANCELLED:
            log.info("cancel", reason=finish.reason, **ids)
        else:
            log.warning("stale", outcome=finish.state.value, **ids)

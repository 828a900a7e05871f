"""Finish: turn handlers' outcomes into state, grouped into one statement per flush (DESIGN §7.3).

Outcomes wait at most ``flush_seconds`` before they are written. The thread that comes first writes them: the batch's
own, or the lease renewer's while a handler keeps the batch's thread busy. A write that fails keeps its outcomes for the
next try, as each is a compare-and-set that may be repeated; the lease bounds how long that is worth it. An outcome that
the database refuses costs no other outcome. Each outcome of its group is then written alone. Instead of the refused
one, an attempt is written that says so.
"""

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DataError, IntegrityError, ProgrammingError

from jobs.core.policies import Bury, Delivery, after_failure
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.crash_points import crash_point
from jobs.engine.endings import STALE, Ended, tell
from jobs.engine.traces import Ran
from jobs.handlers.outcome import Outcome, unwritable
from jobs.models.firings.trigger import Origin
from jobs.store import db, execution
from jobs.store.execution import ClaimToken, Finish
from jobs.telemetry import get_logger
from jobs.telemetry.output import stored
from jobs.telemetry.traces.w3c import TraceContext
from jobs.wakeups import wake_beats

log = get_logger()
_rng = random.Random()  # noqa: S311
#: The errors that a statement raises for the values it is given, however often it is repeated.
REFUSED = (DataError, IntegrityError, ProgrammingError, TypeError, ValueError)
_ATTEMPT_STATES = {
    "succeeded": AttemptState.SUCCEEDED,
    "failed": AttemptState.FAILED,
    "timed_out": AttemptState.TIMED_OUT,
    "cancelled": AttemptState.CANCELLED,
}


def to_finish(row: Any, outcome: Outcome) -> Finish:
    """The finish to write for ``outcome`` of the claimed ``row``. The retry decision is made here."""
    state, reason, delay = TriggerState.SUCCEEDED, "", timedelta()
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
        token=ClaimToken(row.id, row.fence),
        attempt_id=row.attempt_id,
        attempt_started_at=row.attempt_started_at,
        state=state,
        attempt_state=_ATTEMPT_STATES[outcome.kind],
        reason=reason,
        delay=delay,
        result=outcome.result,
        error_code=outcome.error_code[:64],
        error_class=outcome.error_class[:200],
        error_message=outcome.error_message,
        traceback=outcome.traceback,
        http_status=_status_or_none(outcome.http_status),
        response_excerpt=outcome.response_excerpt,
        output=stored(outcome.said),
        watched=row.watched,
        tenant_id=row.tenant_id,
        job_type=row.job_type,
        guarded_target=row.guarded_target,
    )


def _status_or_none(status: object) -> int | None:
    """A handler may raise with any status; one that cannot be stored must not cost its whole batch."""
    return status if type(status) is int and 0 < status < 1000 else None


class _Ending(NamedTuple):
    """An outcome that waits to be written. ``instead``: it replaces one that could not be written."""

    ended: Ended
    pause_job: bool
    instead: bool = False

    @property
    def token(self) -> ClaimToken:
        return self.ended.finish.token

    @property
    def job_type(self) -> str:
        return self.ended.finish.job_type


class Finisher:
    """Gathers the outcomes of one batch and writes them in groups. ``counts`` sums up their results.

    ``on_stale`` is told of triggers that were not ours any more.
    """

    def __init__(
        self, *, flush_seconds: float, on_stale: Callable[[Sequence[ClaimToken]], None] = lambda _: None
    ) -> None:
        self._flush_seconds = flush_seconds
        self._on_stale = on_stale
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._gathered: list[_Ending] = []
        self._since = 0.0
        #: Attempts that circuit breakers have counted, though their outcomes may have to be written again.
        self._noted: set[UUID] = set()
        self.counts: Counter[str] = Counter()

    def add(
        self,
        row: Any,
        outcome: Outcome,
        *,
        seconds: float,
        began: float = 0.0,
        trace: TraceContext | None = None,
    ) -> None:
        """Gather one outcome of the claimed ``row``, ``seconds`` after its claim; the next flush writes it.
        ``began``: how many seconds after the claim its handler began. ``trace``: the trace that the attempt is part of.
        """
        ran = Ran(began, seconds, time.monotonic())
        item = _Ending(Ended(row, to_finish(row, outcome), ran, trace), outcome.pause_job)
        with self._lock:
            if not self._gathered:
                self._since = time.monotonic()
            self._gathered.append(item)

    def flush_if_due(self) -> None:
        """Write when the oldest outcome has waited long enough."""
        if self._gathered and time.monotonic() - self._since >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write everything gathered, in one statement if possible. Raises the database's errors, and then keeps the
        outcomes that are not written.
        """
        written: list[tuple[_Ending, TriggerState | None]] = []
        try:
            with self._writing:
                with self._lock:
                    gathered, self._gathered = self._gathered, []
                if not gathered:
                    return
                crash_point("finish.before_commit", (ending.job_type for ending in gathered))
                self._write_all(gathered, written)
        finally:
            if written:
                crash_point("finish.after_commit", (ending.job_type for ending, _ in written))
            for ending, state in written:
                tell(ending.ended, state)
                if state is TriggerState.RETRYING:
                    wake_beats(due_in=ending.ended.finish.delay)
                    crash_point("finish.after_publish", [ending.job_type])
            if any(
                ending.ended.row.origin == Origin.WORKFLOW and state in ENDED for ending, state in written
            ):
                wake_beats()  # its end may have started the next task
            if stale := [ending.token for ending, state in written if state is None]:
                self._on_stale(stale)

    def _write_all(self, gathered: list[_Ending], written: list[tuple[_Ending, TriggerState | None]]) -> None:
        groups = deque(_by_transaction(gathered))
        while groups:
            group = groups.popleft()
            try:
                states = self._write(group)
            except REFUSED as error:
                groups.extendleft([ending] for ending in _apart(group, error))
            except BaseException:
                with self._lock:
                    self._gathered = [
                        *group,
                        *(ending for left in groups for ending in left),
                        *self._gathered,
                    ]
                raise
            else:
                written += [(ending, states.get(ending.token.id)) for ending in group]
                # Count before another thread may write: a thread that finds nothing left to write reads the counts.
                self.counts.update(
                    STALE if (state := states.get(ending.token.id)) is None else state.value
                    for ending in group
                )

    def _write(self, group: Sequence[_Ending]) -> dict[Any, TriggerState]:
        finishes = [ending.ended.finish for ending in group]
        if not any(ending.pause_job for ending in group):
            return execution.finish(finishes, noted=self._noted)
        noted = set(self._noted)
        with db.atomic():  # repeated after an uncertain commit, finish would not know its triggers again
            states = execution.finish(finishes, noted=noted)
            execution.pause_gone(
                [ending.token.id for ending in group if ending.pause_job and ending.token.id in states]
            )
        self._noted = noted  # counted in that transaction
        return states


def _by_transaction(gathered: Sequence[_Ending]) -> list[list[_Ending]]:
    """Plain firings first; then the tasks of workflows, each tenant's by themselves. The write of a task's end also
    does the work that follows from it. That work waits for the task's run and may be a fan-out of thousands, which must
    not delay other tenants.
    """
    groups: dict[int, list[_Ending]] = {0: []}
    for ending in gathered:
        row = ending.ended.row
        groups.setdefault(row.tenant_id if row.origin == Origin.WORKFLOW else 0, []).append(ending)
    return [group for group in groups.values() if group]


def _apart(group: Sequence[_Ending], error: Exception) -> Sequence[_Ending]:
    """The endings to write one by one instead of a refused group; for a single one, an ending that says so."""
    if len(group) > 1:
        return group
    [(ended, _, instead)] = group
    row, finish = ended.row, ended.finish
    ids = {"trigger_id": str(row.id), "attempt_id": str(row.attempt_id), "tenant": row.tenant}
    log.error("outcome refused", error=str(error).strip().splitlines()[:1], outcome=finish.state.value, **ids)
    if instead:  # its lease runs out, and reap decides about it
        return ()
    return [_Ending(ended._replace(finish=to_finish(row, unwritable(error))), False, instead=True)]

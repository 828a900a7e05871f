"""Claim, renew and finish: the worker's statements, each one CAS on ``(id, fence, state)`` for a whole batch.

A worker that comes too late changes nothing: claim returns fewer rows, renew leaves ids out, finish keeps the late
outcome as a ``stale`` attempt. All may be repeated after an uncertain outcome, claim under the same attempt ids.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.backoff import RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.core.levers.breaker import Pair, reached
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.models.fields import new_ids
from jobs.store import db, events
from jobs.store.dispatch import breakers
from jobs.store.insight import activity
from jobs.store.jobs import note_versions
from jobs.store.trail import ENGINE, acting_as
from jobs.store.workflows.flow import fill_tasks
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("execution")
_STATES = {state.value: state for state in TriggerState}


class ClaimToken(NamedTuple):
    """A trigger as a worker holds it, under one fence."""

    id: UUID
    fence: int


class Finish(NamedTuple):
    """One outcome to write. ``state``: succeeded, retrying, dead or cancelled; ``delay``: until due when retrying.
    ``watched``: any outcome of it may become an event. ``tenant_id`` and ``job_type``: whose activity it is.
    ``guarded_target``: the target that it called, where its tenant has circuit breakers.
    """

    token: ClaimToken
    attempt_id: UUID
    attempt_started_at: datetime
    state: TriggerState
    attempt_state: AttemptState
    reason: str = ""
    delay: timedelta = timedelta()
    result: object = None
    error_code: str = ""
    error_class: str = ""
    error_message: str = ""
    traceback: str = ""
    http_status: int | None = None
    response_excerpt: str = ""
    watched: bool = False
    tenant_id: int = 0
    job_type: str = ""
    output: str | None = None
    guarded_target: str = ""

    @property
    def succeeds(self) -> bool:
        """Whether trigger and attempt both succeed (a late report's attempt does not), and no error is reported."""
        return (
            self.state is TriggerState.SUCCEEDED
            and self.attempt_state is AttemptState.SUCCEEDED
            and not (self.error_code or self.error_class or self.error_message or self.traceback)
        )

    @property
    def told(self) -> bool:
        """Whether it may become an event."""
        return self.watched or self.state is not TriggerState.SUCCEEDED


class Crowding(NamedTuple):
    """Tenants, by slug, whose work a process must leave, because it could not begin with it. It may claim nothing of
    ``crowded``, and of ``waiting`` nothing that may be started only once. Triggers that it leaves come back to dispatch
    after ``wait``.
    """

    crowded: Collection[str] = ()
    waiting: Collection[str] = ()
    wait: timedelta = timedelta()

    def columns(self) -> dict[str, list[str]]:
        return {"crowded": list(self.crowded), "waiting": list(self.waiting)}


NOT_CROWDED = Crowding()


class Claimed(list[Any]):
    """One row per attempt. ``dropped``: how many tokens name an unknown trigger, or an earlier fence."""

    dropped = 0


def claim(
    *,
    tokens: Sequence[ClaimToken],
    job_types: Sequence[str],
    worker: str,
    celery_task_id: str,
    lease: timedelta,
    attempt_ids: Sequence[str] = (),
    crowding: Crowding = NOT_CROWDED,
) -> Claimed:
    """Claim the batch. Returns one row per attempt; hands back triggers that may not run now, and drops stale ones.

    ``job_types``: the types that the message is for; a trigger of another type counts as stale. A row that is
    ``switched_off`` is of a type that its tenant may not use any more.

    The payload of a workflow's task holds the values that it takes from elsewhere. If they cannot be had, the payload
    is an ``Unresolved``. ``workflow`` is a ``TaskContext`` where it is a task, else None.

    ``attempt_ids``: one for each of ``tokens``, for a claim that may be repeated. A claim repeated with the same ids
    also returns the triggers that it took before, when its answer was lost. ``crowding``: whose triggers not to take.

    One statement when all are claimed; one or two more adopt or hand back the others, and one is for tasks.
    """
    ids = list(attempt_ids or new_ids(len(tokens)))
    claimed = Claimed(
        _SQL["claim"](
            **_columns(tokens),
            job_types=list(job_types),
            attempt_ids=ids,
            worker=worker,
            celery_task_id=celery_task_id,
            lease=lease,
            **crowding.columns(),
        )
    )
    if attempt_ids and (left := _left_of(tokens, claimed)):
        starting = dict(zip(tokens, ids, strict=True))
        claimed += _SQL["adopt"](
            **_columns(left), attempt_ids=[starting[token] for token in left], lease=lease
        )
    activity.count_started(claimed)
    fill_tasks(claimed)
    if left := _left_of(tokens, claimed):
        claimed.dropped = len(left) - hand_back(left, crowding, job_types=job_types)
    return claimed


def _left_of(tokens: Sequence[ClaimToken], claimed: Claimed) -> list[ClaimToken]:
    if len(claimed) == len(tokens):
        return []
    ours = {row.id for row in claimed}
    return [token for token in tokens if token.id not in ours]


def _columns(tokens: Sequence[ClaimToken]) -> dict[str, list[Any]]:
    return {"ids": [token.id for token in tokens], "fences": [token.fence for token in tokens]}


def retry_policy_of(row: Any) -> RetryPolicy:
    """The retry policy of a row of ``claim``, ``reap.expired_leases`` or ``reap.in_hand``.

    The default replaces a policy that can no longer be read: it must neither fail its batch nor stop the reaper.
    """
    try:
        return RetryPolicy.from_json(row.retry_policy)
    except InvalidInput as error:
        log.error("retry policy broken", trigger_id=str(row.id), error=str(error))
        return RetryPolicy()


def hand_back(
    tokens: Sequence[ClaimToken], crowding: Crowding = NOT_CROWDED, *, job_types: Sequence[str] | None = None
) -> int:
    """Return triggers still queued under these fences (and of these types) to ``pending``; those of tenants in
    ``crowding``, for a later time. Returns how many.
    """
    types = None if job_types is None else list(job_types)
    waits = crowding.columns() | {"wait": crowding.wait}
    rows = _SQL["hand_back"](**_columns(tokens), **waits, job_types=types)
    activity.count(rows, "handed_back")
    return len(rows)


def renew(*, tokens: Sequence[ClaimToken], lease: timedelta) -> dict[UUID, bool]:
    """Prolong the leases of ``tokens``. Returns id -> cancel requested; an id left out is no longer ours."""
    rows = _SQL["renew"](**_columns(tokens), lease=lease)
    return {row.id: row.cancel_requested for row in rows}


def note_stopping(tokens: Sequence[ClaimToken]) -> None:
    """Note that the worker of ``tokens`` was told to stop, so that a kill for it does not count as their crash."""
    _SQL["note_stopping"](**_columns(tokens))


def note_progress(*, token: ClaimToken, progress: object = None, checkpoint: object = None) -> bool:
    """Keep progress or a checkpoint of a running trigger. False: it is no longer ours."""
    return bool(
        _SQL["note_progress"](
            id=token.id,
            fence=token.fence,
            progress=_json_or_null(progress),
            checkpoint=_json_or_null(checkpoint),
        )
    )


def finish(finishes: Sequence[Finish], *, noted: set[UUID] | None = None) -> dict[UUID, TriggerState]:
    """Write a group of outcomes. Returns the final state of those that were still ours; the others are stale.

    Opens a transaction where one of them may become an event. Counts them for circuit breakers first, while a trigger
    that probes still counts as in flight: otherwise dispatch might hand out another probe before this one is decided.

    ``noted``: the attempts that were counted already. The caller keeps it from one try to the next, because the count
    stays if the write fails. This call adds the attempts that it counts.
    """
    if not finishes:
        return {}
    noted = set() if noted is None else noted
    if calls := [f for f in finishes if f.guarded_target and f.attempt_id not in noted]:
        breakers.note(_calls(calls))
        noted.update(f.attempt_id for f in calls)
    told = {f.token.id: f.watched for f in finishes if f.told}
    if not told:
        return _finish(finishes)
    with db.atomic():
        states = _finish(finishes)
        events.note(key for key in told if key in states and (told[key] or states[key] in ENDED))
    return states


def _calls(finishes: Sequence[Finish]) -> Iterator[tuple[Pair, UUID, bool]]:
    """The results of calls to guarded targets, as far as their attempts show them."""
    for f in finishes:
        answered = reached(attempt_state=f.attempt_state, error_code=f.error_code, http_status=f.http_status)
        if answered is not None:
            yield (f.tenant_id, f.guarded_target), f.token.id, answered


def _finish(finishes: Sequence[Finish]) -> dict[UUID, TriggerState]:
    if len(finishes) == 1 and finishes[0].succeeds:
        return _succeed(finishes[0])
    started_ats = [f.attempt_started_at for f in finishes]
    outcomes = activity.Outcomes(finishes)
    rows = _SQL["finish"](
        ids=[f.token.id for f in finishes],
        fences=[f.token.fence for f in finishes],
        attempt_ids=[f.attempt_id for f in finishes],
        attempt_started_ats=started_ats,
        first_started_at=min(started_ats),
        last_started_at=max(started_ats),
        states=[f.state.value for f in finishes],
        reasons=_sparse([f.reason for f in finishes]),
        delays=_sparse([f.delay for f in finishes]),
        results=_sparse([_json_or_null(f.result) for f in finishes]),
        attempt_states=[f.attempt_state.value for f in finishes],
        error_codes=_sparse([f.error_code for f in finishes]),
        error_classes=_sparse([f.error_class for f in finishes]),
        error_messages=_sparse([f.error_message for f in finishes]),
        tracebacks=_sparse([f.traceback for f in finishes]),
        http_statuses=_sparse([f.http_status for f in finishes]),
        response_excerpts=_sparse([f.response_excerpt for f in finishes]),
        outputs=_sparse([f.output for f in finishes]),
    )
    return _written(outcomes, rows)


def _succeed(finish: Finish) -> dict[UUID, TriggerState]:
    rows = _SQL["succeed"](
        id=finish.token.id,
        fence=finish.token.fence,
        attempt_id=finish.attempt_id,
        attempt_started_at=finish.attempt_started_at,
        result=_json_or_null(finish.result),
        http_status=finish.http_status,
        response_excerpt=finish.response_excerpt,
        output=finish.output,
    )
    return _written(activity.Outcomes([finish]), rows)


def _written(outcomes: activity.Outcomes, rows: Sequence[Any]) -> dict[UUID, TriggerState]:
    outcomes.count(rows)
    return {row.id: _STATES[row.state] for row in rows}


def _sparse(values: list[Any]) -> list[Any]:
    """An empty list if all values are empty, as in a batch that succeeded: the statement fills in missing values."""
    return values if any(values) else []


def pause_gone(trigger_ids: Sequence[UUID]) -> None:
    """Pause the jobs of triggers whose target answered 410 Gone (DESIGN §7), if it is the job's present target."""
    with acting_as(ENGINE), db.atomic():
        note_versions([row.id for row in _SQL["pause_gone"](trigger_ids=list(trigger_ids))])


def _json_or_null(value: object) -> str | None:
    return None if value is None else json.dumps(value, allow_nan=False)


def store_result(
    *,
    task_id: str,
    task_name: str | None,
    worker: str | None,
    status: str,
    result: object,
    traceback: str | None,
    task_args: str | None,
) -> None:
    """Keep the result of a Celery task, once; a stale duplicate never overwrites it."""
    _SQL["store_result"](
        task_id=task_id,
        task_name=task_name,
        worker=worker,
        status=status,
        result=json.dumps(result),
        traceback=traceback,
        task_args=task_args,
    )

"""Claim, renew and finish: the worker's statements, each one CAS on ``(id, fence, state)`` for a whole batch.

A worker that comes too late changes nothing: claim returns fewer rows, renew leaves ids out, finish keeps the late
outcome as a ``stale`` attempt. All may be repeated after an uncertain outcome.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from jobs.core.backoff import RetryPolicy
from jobs.core.errors import InvalidInput
from jobs.core.states import ENDED, AttemptState, TriggerState
from jobs.models.fields import new_ids
from jobs.store import db, events
from jobs.store.jobs import note_versions
from jobs.store.trail import ENGINE, acting_as
from jobs.telemetry import get_logger

log = get_logger()
_SQL = db.queries("execution")
_STATES = {state.value: state for state in TriggerState}


class Grip(NamedTuple):
    """A trigger in a worker's hand, under one fence."""

    id: UUID
    fence: int


class Finish(NamedTuple):
    """One outcome to write. ``state`` succeeded, retrying, dead or cancelled; ``delay`` until due when retrying.
    ``watched``: somebody wants an event of it, whatever it is.
    """

    grip: Grip
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

    @property
    def succeeds(self) -> bool:
        """Whether trigger and attempt both succeed, as a late report's attempt does not, and no error is told."""
        return (
            self.state is TriggerState.SUCCEEDED
            and self.attempt_state is AttemptState.SUCCEEDED
            and not (self.error_code or self.error_class or self.error_message or self.traceback)
        )

    @property
    def told(self) -> bool:
        """Whether it may become an event."""
        return self.watched or self.state is not TriggerState.SUCCEEDED


class Claimed(list[Any]):
    """One row an attempt. ``dropped``: how many grips are of triggers unknown, or that moved on under another fence."""

    dropped = 0


def claim(*, grips: Sequence[Grip], worker: str, celery_task_id: str, lease: timedelta) -> Claimed:
    """Make the batch ours. Returns one row an attempt; what may not run now is handed back, what is stale dropped.

    One statement when all are claimed, a second one hands back the others.
    """
    claimed = Claimed(
        _SQL["claim"](
            ids=[grip.id for grip in grips],
            fences=[grip.fence for grip in grips],
            attempt_ids=new_ids(len(grips)),
            worker=worker,
            celery_task_id=celery_task_id,
            lease=lease,
        )
    )
    if len(claimed) < len(grips):
        ours = {row.id for row in claimed}
        left = [grip for grip in grips if grip.id not in ours]
        claimed.dropped = len(left) - hand_back(left)
    return claimed


def retry_policy_of(row: Any) -> RetryPolicy:
    """The retry policy of a row of ``claim`` or ``reap.expired_leases``.

    One that can no longer be read gives way to the default: it must neither cost its batch nor stop the reaper.
    """
    try:
        return RetryPolicy.from_json(row.retry_policy)
    except InvalidInput as error:
        log.error("retry policy broken", trigger_id=str(row.id), error=str(error))
        return RetryPolicy()


def hand_back(grips: Sequence[Grip]) -> int:
    """Return triggers still queued under these fences to ``pending``. Returns how many."""
    return len(_SQL["hand_back"](ids=[grip.id for grip in grips], fences=[grip.fence for grip in grips]))


def renew(*, grips: Sequence[Grip], lease: timedelta) -> dict[UUID, bool]:
    """Prolong the leases of ``grips``. Returns id -> cancel requested; an id left out is no longer ours."""
    rows = _SQL["renew"](ids=[grip.id for grip in grips], fences=[grip.fence for grip in grips], lease=lease)
    return {row.id: row.cancel_requested for row in rows}


def note_progress(*, grip: Grip, progress: object = None, checkpoint: object = None) -> bool:
    """Keep progress or a checkpoint of a running trigger. False: it is no longer ours."""
    return bool(
        _SQL["note_progress"](
            id=grip.id,
            fence=grip.fence,
            progress=_json_or_null(progress),
            checkpoint=_json_or_null(checkpoint),
        )
    )


def finish(finishes: Sequence[Finish]) -> dict[UUID, TriggerState]:
    """Write a group of outcomes. Returns the final state of those that were still ours; the others are stale.

    Opens a transaction where one of them may become an event.
    """
    if not finishes:
        return {}
    told = {f.grip.id: f.watched for f in finishes if f.told}
    if not told:
        return _finish(finishes)
    with db.atomic():
        states = _finish(finishes)
        events.note(key for key in told if key in states and (told[key] or states[key] in ENDED))
    return states


def _finish(finishes: Sequence[Finish]) -> dict[UUID, TriggerState]:
    if len(finishes) == 1 and finishes[0].succeeds:
        return _succeed(finishes[0])
    started_ats = [f.attempt_started_at for f in finishes]
    rows = _SQL["finish"](
        ids=[f.grip.id for f in finishes],
        fences=[f.grip.fence for f in finishes],
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
    )
    return {row.id: _STATES[row.state] for row in rows}


def _succeed(finish: Finish) -> dict[UUID, TriggerState]:
    rows = _SQL["succeed"](
        id=finish.grip.id,
        fence=finish.grip.fence,
        attempt_id=finish.attempt_id,
        attempt_started_at=finish.attempt_started_at,
        result=_json_or_null(finish.result),
        http_status=finish.http_status,
        response_excerpt=finish.response_excerpt,
    )
    return {row.id: TriggerState.SUCCEEDED for row in rows}


def _sparse(values: list[Any]) -> list[Any]:
    """Nothing at all where all are empty, as in a batch that succeeded: the statement fills in what is missing."""
    return values if any(values) else []


def pause_gone(job_ids: Sequence[UUID]) -> None:
    """Pause jobs whose target answered 410 Gone (DESIGN §7)."""
    with acting_as(ENGINE), db.atomic():
        note_versions([row.id for row in _SQL["pause_gone"](job_ids=list(job_ids))])


def _json_or_null(value: object) -> str | None:
    return None if value is None else json.dumps(value, allow_nan=False)

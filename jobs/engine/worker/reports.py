"""The reports of a running handler: its progress, the checkpoint from which a later attempt may resume, a
run that it must begin."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any
from uuid import UUID

from jobs.core.errors import Conflict
from jobs.core.workflows.states import RUN_TYPE, SCHEDULE_TYPE
from jobs.crash_points import crash_point
from jobs.handlers.outcome import Permanent
from jobs.store import db, execution, workflows
from jobs.store.execution import ClaimToken
from jobs.wakeups import wake_beats

#: How long a handler's report may wait for a database that is away.
NOTE_PATIENCE_SECONDS = 5.0
_notes = ThreadPoolExecutor(1, "carillon-notes")


def note_progress(token: ClaimToken, fraction: float, stage: str) -> None:
    _note(partial(execution.note_progress, token=token, progress={"fraction": fraction, "stage": stage}))


def note_checkpoint(token: ClaimToken, state: dict[str, Any]) -> None:
    _note(partial(execution.note_progress, token=token, checkpoint=state))


def begin_run(token: ClaimToken, run_input: Any) -> UUID | None:
    """Begin the run of a firing of a workflow's schedule, and wake beats for its first tasks. May be repeated."""
    return _begun(
        workflows.begin_fired(trigger_id=token.id, fence=token.fence, run_input=run_input), SCHEDULE_TYPE
    )


def begin_inner(token: ClaimToken, workflow: str, run_input: Any) -> UUID | None:
    """Begin the run that a task is, and wake beats for its first tasks. May be repeated. Raises ``Permanent``."""
    try:
        return _begun(
            workflows.begin_inner(
                trigger_id=token.id, fence=token.fence, workflow=workflow, run_input=run_input
            ),
            RUN_TYPE,
        )
    except Conflict as refused:
        raise Permanent(str(refused), code="run_refused") from None


def _begun(run_id: UUID | None, job_type: str) -> UUID | None:
    crash_point("begin_run.after_commit", [job_type])
    if run_id is not None:
        wake_beats()
    return run_id


def _note(write: Callable[[], bool]) -> None:
    """Write now. An asynchronous handler calls from its event loop, where Django refuses, so a thread writes then."""
    keep = partial(db.until_connected, write, patience_seconds=NOTE_PATIENCE_SECONDS, what="note progress")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        keep()
    else:
        _notes.submit(copy_context().run, keep).result()

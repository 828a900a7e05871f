"""Write versions; begin, cancel and retry runs."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from jobs.core.errors import Conflict
from jobs.core.workflows.graph import Edge
from jobs.core.workflows.states import MAX_BELOW, MAX_DEPTH, WAIT_TYPE, When
from jobs.models import Job, Origin, WorkflowVersion
from jobs.models.fields import new_id, new_ids
from jobs.store import db, events, lifecycle
from jobs.store import jobs as job_store
from jobs.store.insight import activity
from jobs.store.purge import first_id_within

_SQL = db.queries("workflows")
#: The distance between instants of runs that may have maps: ten thousand items, a microsecond each.
_SHIFT = timedelta(milliseconds=10)
_MAX_SHIFTS = 100
#: Runs of tasks take a free one of this many instants, which cover ten seconds.
_SPREAD = 1_000
_rng = random.Random()  # noqa: S311
#: The most task runs that one statement deletes, not counting those of its last run.
_MAX_PURGED_ROWS = 20_000


class Within(NamedTuple):
    """The place of a run that is a task of another: which start of the task begins it, how deep it lies, the run at the
    top, and the trace of the run that it is part of.
    """

    task_start: int
    depth: int
    root_id: UUID
    trace: str | None


class Map(NamedTuple):
    """The list that a map goes over, as a reference, and how many of its items may be started at once."""

    over: str
    max_parallel: int


def insert_graph(
    version: WorkflowVersion,
    *,
    whens: Mapping[str, When],
    edges: Sequence[Edge],
    jobs: Mapping[str, Job],
    maps: Mapping[str, Map],
) -> set[str]:
    """Write the tasks, edges and hidden jobs of a version, in the caller's transaction.

    Returns the keys of tasks whose jobs have a name that another job has; then the caller must roll back.
    """
    written = job_store.insert(list(jobs.values()))
    if len(written) < len(jobs):
        return {key for key, job in jobs.items() if job.id not in written}
    numbers = {key: number for number, key in enumerate(whens)}
    incoming = Counter(edge.after for edge in edges)
    _SQL["insert_graph"](
        version_id=version.id,
        numbers=list(numbers.values()),
        keys=list(numbers),
        job_ids=[jobs[key].id for key in numbers],
        needs_all=[when.needs_all for when in whens.values()],
        incoming=[incoming[key] for key in numbers],
        waits=[jobs[key].job_type == WAIT_TYPE for key in numbers],
        maps_over=[maps[key].over if key in maps else "" for key in numbers],
        map_parallel=[maps[key].max_parallel if key in maps else None for key in numbers],
        befores=[numbers[edge.before] for edge in edges],
        afters=[numbers[edge.after] for edge in edges],
        conditions=[edge.meaning(whens).value for edge in edges],
    )
    return set()


def begin_run(
    *,
    workflow_id: UUID,
    version_id: UUID,
    tasks: int,
    run_input: object = None,
    scheduled_for: datetime | None = None,
    origin: str = Origin.RUN_NOW,
    trigger_id: UUID | None = None,
    within: Within | None = None,
) -> UUID | None:
    """Begin a run of a version that has ``tasks`` tasks, and start those that wait for nothing. Opens a transaction.

    ``within``: for a run that is a task of another. Returns the run's id; None: the workflow is deleted, or has a run
    of the instant ``scheduled_for`` (None: now).
    """
    with db.atomic():
        rows = _SQL["begin"](
            id=new_id(),
            workflow_id=workflow_id,
            version_id=version_id,
            ids=new_ids(tasks),
            input=None if run_input is None else orjson.dumps(run_input).decode(),
            scheduled_for=scheduled_for,
            origin=str(origin),
            trigger_id=trigger_id,
            trace=within.trace if within else job_store.callers_trace_kept(),
            task_start=within and within.task_start,
            depth=within.depth if within else 0,
            root_id=within and within.root_id,
        )
        for row in rows:
            _SQL["settle"](id=row.id)
            return UUID(str(row.id))
    return None


def begin_inner(*, trigger_id: UUID, fence: int, workflow: str, run_input: object = None) -> UUID | None:
    """Begin the run for a claimed task of another run, of the workflow that has this name now. Opens a transaction.

    Returns its id, the same however often this start of the task is executed. None: the task was cancelled or taken
    over. Raises ``Conflict`` where no run can be begun.
    """
    with db.atomic():
        for row in _SQL["inner"](id=trigger_id, fence=fence, name=workflow, most_below=MAX_BELOW):
            if row.known_id is not None:
                return UUID(str(row.known_id))
            if row.version_id is None:
                raise Conflict(f"There is no workflow named {workflow}.")
            if row.depth > MAX_DEPTH:
                raise Conflict(f"Runs may be nested at most {MAX_DEPTH} deep.")
            if row.below >= MAX_BELOW:
                raise Conflict(f"Below one run there may be at most {MAX_BELOW:,} others.")
            if (size := len(orjson.dumps(run_input))) > row.max_bytes:
                raise Conflict(f"Its input has {size:,} bytes; max_payload_bytes allows {row.max_bytes:,}.")
            for nth in range(_MAX_SHIFTS):
                run_id = begin_run(
                    workflow_id=row.workflow_id,
                    version_id=row.version_id,
                    tasks=row.task_count,
                    run_input=run_input,
                    # Many may begin at once: one that finds its instant taken tries others of the next seconds.
                    scheduled_for=row.now + _rng.randrange(1, _SPREAD) * _SHIFT if nth else None,
                    origin=Origin.WORKFLOW,
                    trigger_id=trigger_id,
                    within=Within(row.task_start, row.depth, row.root_id, row.trace),
                )
                if run_id is not None:
                    return run_id
            raise Conflict(f"Workflow {workflow} was deleted, or begins too many runs at once.")
    return None


def begin_fired(*, trigger_id: UUID, fence: int, run_input: object = None) -> UUID | None:
    """Begin the run of a claimed firing of a workflow's schedule, of the present version. Opens a transaction.

    Returns its id, the same however often the firing is executed. None: the firing was cancelled or taken over, or the
    workflow is deleted.
    """
    with db.atomic():
        for row in _SQL["firing"](id=trigger_id, fence=fence):
            # A caller's run may have that very instant: then this one takes the next that is free.
            for nth in range(_MAX_SHIFTS):
                scheduled_for = row.scheduled_for + nth * _SHIFT
                run_id = begin_run(
                    workflow_id=row.workflow_id,
                    version_id=row.version_id,
                    tasks=row.task_count,
                    run_input=run_input,
                    scheduled_for=scheduled_for,
                    origin=row.origin,
                    trigger_id=trigger_id,
                )
                known = _SQL["run_of_instant"](workflow_id=row.workflow_id, scheduled_for=scheduled_for)
                if run_id is not None or not known:
                    return run_id
                if known[0].trigger_id == trigger_id:
                    return UUID(str(known[0].id))
    return None


def cancel_run(*, run_id: UUID, tenant_id: int, reason: str = "requested") -> bool:
    """Do both steps of a cancel, each in its own transaction: call it outside one. False: as ``begin_cancel``."""
    if not begin_cancel(run_id=run_id, tenant_id=tenant_id, reason=reason):
        return False
    cancel_started(run_id=run_id, tenant_id=tenant_id)
    return True


def begin_cancel(*, run_id: UUID, tenant_id: int, reason: str = "requested") -> bool:
    """Start no more tasks of a run, and end those that wait. False: it has ended, or is not this tenant's.

    Opens a transaction, which must not go on to wait for triggers: ``cancel_started`` opens another one after it. A
    failure between the two leaves a run that starts nothing more; both may be repeated.
    """
    with db.atomic():
        if not _SQL["begin_cancel"](id=run_id, tenant_id=tenant_id, reason=reason):
            return False
        _SQL["cancel_waiting"](id=run_id)
        _SQL["settle"](id=run_id)
        return True


def cancel_started(*, run_id: UUID, tenant_id: int) -> None:
    """Ask a run's running triggers to stop, end its due ones, and let a beat cancel the runs that are tasks of it.

    Opens a transaction.
    """
    with db.atomic():
        lifecycle.cancel_many(trigger_ids=[row.id for row in _SQL["started"](id=run_id)], tenant_id=tenant_id)
        # After the triggers are locked: a task that was about to begin a run has begun it, or will not.
        _SQL["cancel_inner"](id=run_id)


def cancel_due(*, limit: int) -> int:
    """Cancel up to ``limit`` runs whose cancel is due: their deadline is over, a newer firing replaces them, or their
    outer run was cancelled.

    Returns how many were looked at; a cancel that fails comes again. Call it outside a transaction.
    """
    due = _SQL["due_cancels"](limit=limit)
    for row in due:
        if row.running:
            cancel_run(run_id=row.run_id, tenant_id=row.tenant_id, reason=row.reason)
    if due:
        _SQL["cancels_done"](ids=[row.run_id for row in due], ats=[row.at for row in due])
    return len(due)


def pause_run(*, run_id: UUID, tenant_id: int) -> bool:
    """Start nothing more of a run until it is resumed. False: it has ended, or is not this tenant's."""
    return bool(_SQL["pause"](id=run_id, tenant_id=tenant_id))


def resume_run(*, run_id: UUID, tenant_id: int) -> bool:
    """Start the ready tasks of a run. False: it has ended, or is not this tenant's. Opens a transaction."""
    with db.atomic():
        for row in _SQL["resume"](id=run_id, tenant_id=tenant_id):
            _SQL["settle"](id=row.id)
            return True
    return False


def answer(
    *, run_id: UUID, tenant_id: int, kind: str, name: str, result: object, refused: bool = False
) -> list[UUID]:
    """End the waits of a run for this signal or approval; ``refused``: cancel them. Returns the ids of their triggers.

    The consequences happen at the commit.
    """
    rows = _SQL["answer"](
        id=run_id,
        tenant_id=tenant_id,
        type=kind,
        name=name,
        result=None if result is None else orjson.dumps(result).decode(),
        refused=refused,
    )
    activity.count_cancelled(rows)
    activity.count_first(rows)
    events.note(row.id for row in rows)
    return [row.id for row in rows]


def unknown_tasks(*, version_id: UUID, tasks: Sequence[str]) -> list[int]:
    """The places, in ``tasks``, of names that no task of the version has."""
    return [row.nth for row in _SQL["unknown_tasks"](version_id=version_id, tasks=list(tasks))]


def retry_run(*, run_id: UUID, tenant_id: int, tasks: Sequence[str] = (), skip: Sequence[str] = ()) -> bool:
    """Let a run that ended go on: ``tasks`` (none: those that did not succeed) and all downstream begin again.

    ``skip``: tasks that failed or were cancelled, and count as succeeded from here on. If no ``tasks`` are named with
    them, only tasks that a failure had kept from starting begin again. False: it has not ended, is not this tenant's,
    or succeeded and no tasks are named. Raises ``Conflict`` (``skip``). Opens a transaction.
    """
    with db.atomic():
        for row in _SQL["begin_retry"](
            id=run_id, tenant_id=tenant_id, names_tasks=bool(tasks), trace=job_store.callers_trace_kept()
        ):
            _SQL["bound"](id=row.id)
            passed = []
            if skip:
                found = _SQL["pass_over"](id=row.id, version_id=row.version_id, tasks=list(skip))
                passed = [one.task for one in found]
                if len(passed) < len(set(skip)):
                    raise Conflict("Only tasks that failed or were cancelled can be skipped.", field="skip")
            _SQL["reset"](id=row.id, version_id=row.version_id, tasks=list(tasks), passed=passed)
            _SQL["settle"](id=row.id)
            return True
    return False


def task_runs(run_id: UUID) -> list[Any]:
    """The tasks of a run, each with the tasks before it, and with its trigger once it has one."""
    return _SQL["task_runs"](id=run_id)


def purge_runs(*, retention: timedelta, limit: int) -> int:
    """Delete up to ``limit`` runs that ended longer ago than ``retention``. Returns how many, or ``limit`` if others
    have to wait for the next call.
    """
    gone = _SQL["purge_runs"](
        before_id=first_id_within(retention), retention=retention, limit=limit, most_rows=_MAX_PURGED_ROWS
    )
    return limit if gone and gone[0].seen > len(gone) else len(gone)


def purge_deleted(*, retention: timedelta, limit: int) -> int:
    """Delete versions, with about ``limit`` tasks in all, of workflows that have no runs and were deleted longer ago
    than ``retention``; and each workflow with its last version. Returns how many versions.
    """
    return len(_SQL["purge_deleted"](retention=retention, limit=limit))

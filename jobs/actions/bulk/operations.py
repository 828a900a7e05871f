"""Operations: pause, resume, cancel, delete or edit all jobs that match a filter, replay or cancel all such triggers,
pause, resume, cancel or retry all such runs of workflows.

The API begins an operation, and the beats carry it on, a slice at a time (``advance``). A slice is one transaction of a
bounded number of statements: its changes and its progress commit together, so a crash loses no item and does none
twice. If an operation keeps a pace, the statement that takes its row decides by the database's clock how many items may
be done now. The audit trail names the actor who asked for it. The caller decides which items match: a ``Select`` gives
the next ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from jobs.actions import jobs as job_actions
from jobs.actions.bulk import edits, runs, statuses
from jobs.actions.bulk.runs import OUR_FAULT
from jobs.actions.jobs import parse_id
from jobs.core.errors import CarillonError, Conflict, NotFound
from jobs.models import Job, Operation
from jobs.models.operation import RUN_VERBS
from jobs.shapes.operations import OperationShape
from jobs.store import db, lifecycle
from jobs.store import operations as operations_store
from jobs.store.trail import Actor, acting_as
from jobs.telemetry import calling_from, get_logger
from jobs.telemetry.traces import w3c
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant

log = get_logger()
#: Unfinished operations a tenant may have.
MAX_UNFINISHED = 10
#: Items of a slice. While it lasts, nothing of the tenant is dispatched: about a tenth of a second.
SLICE = 250
#: The same for an edit, which checks each job by itself.
EDIT_SLICE = 100
#: The same for runs of workflows: each run takes some statements.
RUN_SLICE = 50
#: A slice ends with the job that brings the triggers it writes above this number.
MAX_TRIGGERS = 2_500
#: If a job of a slice fails in an unforeseen way, this many jobs are done one by one, to find out which one fails.
SLICE_ALONE = 25
#: The SQLSTATE of a statement that took longer than it may.
QUERY_CANCELED = "57014"
_GONE = "There is no such job."
_TOGETHER: dict[str, Callable[[Sequence[Job]], statuses.Refusals]] = {
    "pause": statuses.pause,
    "resume": statuses.resume,
    "cancel": statuses.cancel,
    "delete": statuses.delete,
}
_ALONE: dict[str, Callable[..., Any]] = {
    "pause": job_actions.pause_job,
    "resume": job_actions.resume_job,
    "cancel": job_actions.cancel_job,
    "delete": job_actions.delete_job,
}


_OF_TRIGGERS: dict[str, tuple[Callable[..., list[UUID]], str]] = {
    "replay": (
        lifecycle.replay,
        "It has not ended, is a task of a workflow run, or its job is cancelled or deleted.",
    ),
    "cancel_triggers": (lifecycle.cancel_many, "It has already ended."),
}


class Selection(NamedTuple):
    """The next ``ids`` that match, and the last id that was looked at; with ``ends`` there are no more behind it."""

    ids: list[UUID]
    last: UUID
    ends: bool


#: Called with an operation's row and the most ids to return.
Select = Callable[[Any, int], Selection]


def begin_operation(
    *,
    tenant: Tenant,
    verb: str,
    wanted: dict[str, str],
    changes: dict[str, Any] | None = None,
    all_or_nothing: bool = False,
    per_second: float | None = None,
    reason: str = "",
    expected: int | None = None,
) -> Operation:
    """Put an operation on record; the beats take it up. ``wanted`` is a checked filter, ``changes`` are the changes of
    an edit (``definition.read_patch``). ``all_or_nothing``: check all jobs first, and edit none if one refuses.
    ``per_second``: the most items a second. ``reason``: the reason of a pause, which the jobs then show.
    ``expected``: how many items matched when they were counted.

    Raises ``Conflict`` when ``MAX_UNFINISHED`` of the tenant's are unfinished.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        begun = operations_store.begin(
            tenant_id=tenant.id,
            verb=verb,
            wanted=wanted,
            changes=changes,
            all_or_nothing=all_or_nothing,
            per_second=per_second,
            reason=reason,
            expected=expected,
            most=MAX_UNFINISHED,
        )
        if begun is None:
            raise Conflict(f"{MAX_UNFINISHED} of your operations have not finished; wait, or cancel one.")
        return Operation.objects.get(id=begun)


def find_operation(*, tenant: Tenant, operation_id: UUID | str) -> Operation:
    """The operation of that id, for reading. Raises ``NotFound``."""
    wanted = parse_id(operation_id, "operation")
    operation = Operation.objects.filter(tenant=tenant, id=wanted).first()
    if operation is None:
        raise NotFound("There is no such operation.")
    return operation


def cancel_operation(*, tenant: Tenant, operation_id: UUID | str) -> Operation:
    """Do no more items of it; the done ones stay done. May be repeated. Raises ``Conflict`` when it has finished."""
    operation = find_operation(tenant=tenant, operation_id=operation_id)
    stopped = operations_store.cancel(operation_id=operation.id, tenant_id=tenant.id)
    operation.refresh_from_db()
    if not stopped and not operation.cancelled:
        raise Conflict("The operation has already finished.")
    return operation


def pause_operation(*, tenant: Tenant, operation_id: UUID | str) -> Operation:
    """Do no more items of it until it is resumed. May be repeated. Raises ``Conflict`` when it has ended."""
    return _stop_or_go(operations_store.pause, tenant=tenant, operation_id=operation_id)


def resume_operation(*, tenant: Tenant, operation_id: UUID | str) -> Operation:
    """Go on with a paused operation where it stopped. May be repeated. Raises ``Conflict`` when it has ended."""
    return _stop_or_go(operations_store.resume, tenant=tenant, operation_id=operation_id)


def _stop_or_go(act: Callable[..., bool], *, tenant: Tenant, operation_id: UUID | str) -> Operation:
    operation = find_operation(tenant=tenant, operation_id=operation_id)
    act(operation_id=operation.id, tenant_id=tenant.id)
    operation.refresh_from_db()
    if operation.finished_at:
        raise Conflict(f"The operation has already ended: it is {status_of(operation)}.")
    return operation


def advance(select: Select) -> bool:
    """Do one slice of the operation that has waited longest. False: there is none, other beats work on
    them, or all are paused or wait for their pace."""
    with db.atomic():
        operation = operations_store.take()
        if operation is None:
            return False
        try:
            with (
                acting_as(operation.asked_by and Actor(**operation.asked_by)),
                calling_from(w3c.recall(operation.trace or "")),
                db.atomic(),
            ):
                _do_slice(operation, select)
        except db.DISCONNECTED:
            raise
        except db.StatementFailed as error:
            # The tenant is locked elsewhere. Let the other operations have their turn; this one comes after them.
            log.info("operation waits", id=str(operation.id), error=str(error).strip().splitlines()[:1])
            operations_store.postpone(operation_id=operation.id)
        except Exception:
            log.exception("operation failed", id=str(operation.id))
            operations_store.postpone(operation_id=operation.id)
    return True


def representation(operation: Operation) -> dict[str, Any]:
    """The operation as the API shows it."""
    return OperationShape.of(
        operation,
        status=status_of(operation),
        refusals=operation.refusals[: operations_store.MAX_REFUSALS],
        checked=operation.checked if operation.all_or_nothing else None,
    )


def status_of(operation: Operation) -> str:
    """The status in one word: running or paused; or, at its end, finished, refused or cancelled."""
    if operation.finished_at is None:
        return "paused" if operation.paused_at else "running"
    if operation.cancelled:
        return "cancelled"
    return "refused" if operation.checking else "finished"


def _do_slice(operation: Any, select: Select) -> None:
    tenant = Tenant.objects.get(id=operation.tenant_id)
    of_runs = operation.verb in RUN_VERBS
    most = EDIT_SLICE if operation.verb == "edit" else RUN_SLICE if of_runs else SLICE
    chosen = select(operation, most if operation.room is None else min(most, operation.room))
    if of_runs and chosen.ids:
        items, done, refusals = runs.carry_out(operation.verb, tenant=tenant, ids=chosen.ids)
    else:
        act = _check if operation.checking else _carry_out
        items, refusals = act(operation, tenant, chosen.ids) if chosen.ids else (0, {})
        done = items - len(refusals)
    if items == len(chosen.ids):
        cursor, ends = chosen.last, chosen.ends
    else:
        cursor, ends = chosen.ids[items - 1] if items else operation.cursor, False
    if operation.checking:
        operations_store.note_checked(
            operation=operation, cursor=cursor, items=items, refusals=refusals, ends=ends
        )
    else:
        operations_store.note(operation=operation, cursor=cursor, done=done, refusals=refusals, ends=ends)


def _check(operation: Any, tenant: Tenant, ids: list[UUID]) -> tuple[int, statuses.Refusals]:
    """Check the first of an edit's jobs, and say which would refuse. Locks nothing."""
    found = {job.id: job for job in Job.objects.filter(tenant=tenant, deleted_at=None, id__in=ids)}
    living = [found[one] for one in ids if one in found]
    try:
        judged = list(edits.judge(living, tenant=tenant, changes=operation.changes, now=database_now()))
    except db.TRANSIENT:
        raise
    except Exception:
        # One job failed in an unforeseen way: all are left as they are.
        log.exception("operation failed on a job", verb=operation.verb, tenant=tenant.slug)
        return len(ids), dict.fromkeys(ids, OUR_FAULT)
    refusals = {job.id: str(why) for job, why in judged if isinstance(why, CarillonError)}
    # A job that is gone by now will still be gone when the others are edited.
    return len(ids) if len(judged) == len(living) else ids.index(judged[-1][0].id) + 1, refusals


def _carry_out(operation: Any, tenant: Tenant, ids: list[UUID]) -> tuple[int, statuses.Refusals]:
    """Do it to the first of the items; returns how many were tried, and why it could not be done to some, by id."""
    verb: str = operation.verb
    if verb in _OF_TRIGGERS:
        lifecycle.lock_tenant(tenant.id)
        wake_beats()
        act, why = _OF_TRIGGERS[verb]
        done = set(act(trigger_ids=ids, tenant_id=tenant.id))
        return len(ids), {one: why for one in ids if one not in done}
    try:
        with db.atomic():
            return _together(operation, tenant, ids)
    except db.DISCONNECTED:
        raise
    except db.StatementFailed as error:
        if not _took_too_long(error):
            raise
        log.info("operation goes on job by job", verb=verb, tenant=tenant.slug)
    except Exception:
        log.exception("operation goes on job by job", verb=verb, tenant=tenant.slug)
    alone = ids[:SLICE_ALONE]
    return len(alone), {one: why for one in alone if (why := _refused(operation, tenant, one))}


def _together(operation: Any, tenant: Tenant, ids: list[UUID]) -> tuple[int, statuses.Refusals]:
    verb: str = operation.verb
    locked = {job.id: job for job in job_actions.lock_jobs(tenant, ids, whole=verb == "edit")}
    taken = _as_many_as_may_be(verb, ids, locked)
    living = [locked[one] for one in taken if one in locked]
    if verb == "edit":
        edited = edits.edit(living, tenant=tenant, changes=operation.changes)
        if edited.looked_at < len(living):
            taken = taken[: taken.index(living[edited.looked_at - 1].id) + 1]
        refusals = {one: str(why) for one, why in edited.refused.items()}
    else:
        refusals = _TOGETHER[verb](living)
        if operation.reason:
            operations_store.note_reason(list(locked), reason=operation.reason)
    refusals |= {one: _GONE for one in taken if one not in locked}
    return len(taken), {one: refusals[one] for one in taken if one in refusals}


def _as_many_as_may_be(verb: str, ids: list[UUID], locked: dict[UUID, Job]) -> list[UUID]:
    """One job may have thousands of waiting triggers, or owe them: then the slice ends with it."""
    written = lifecycle.weigh(job_ids=list(locked), most=MAX_TRIGGERS)
    now, pauses = database_now(), statuses.pauses_of(locked.values())
    total = 0
    for place, one in enumerate(ids):
        total += written.get(one, 0)
        if verb != "pause" and one in locked:
            debts = statuses.debts_of([locked[one]], now=now, pauses=pauses)
            total += sum(len(debt.firings) for debt in debts)
        if total > MAX_TRIGGERS:
            return ids[: place + 1]
    return ids


def _refused(operation: Any, tenant: Tenant, job_id: UUID) -> str:
    """Why it could not be done to one job; empty when it was."""
    verb: str = operation.verb
    try:
        with db.atomic():
            if verb == "edit":
                job_actions.update_job(tenant=tenant, job_id=job_id, changes=operation.changes)
            else:
                _ALONE[verb](tenant=tenant, job_id=job_id)
                if operation.reason:
                    operations_store.note_reason([job_id], reason=operation.reason)
    except CarillonError as error:
        return str(error)
    except db.DISCONNECTED:
        raise
    except db.StatementFailed as error:
        if not _took_too_long(error):
            raise
        return "It has too many triggers for an operation on many jobs; do it to this job alone."
    except Exception:
        # One job that fails in an unforeseen way must not keep the operation from the others for ever.
        log.exception("operation failed on a job", verb=verb, job_id=str(job_id))
        return OUR_FAULT
    return ""


def _took_too_long(error: db.StatementFailed) -> bool:
    """Whether the work itself took too long, and not the wait for a lock, which is released sooner or later."""
    return db.sqlstate(error) == QUERY_CANCELED

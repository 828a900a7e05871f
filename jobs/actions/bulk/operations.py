"""Operations: pause, resume, cancel or delete all jobs that match a filter, or replay all such triggers.

Begun by the API and carried on by the beats, a slice at a time (``advance``). A slice is one transaction of a constant
number of statements: what it does and how far it has come commit together, so that a crash loses no item and does none
twice. The audit trail names who asked for it. Which items match is the caller's business: a ``Select`` gives the next.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from jobs.actions import jobs as job_actions
from jobs.actions.bulk import statuses
from jobs.actions.jobs import parse_id
from jobs.core.errors import CarillonError, Conflict, NotFound
from jobs.models import Job, Operation
from jobs.shapes.operations import OperationShape
from jobs.store import db, lifecycle
from jobs.store import operations as operations_store
from jobs.store.trail import Actor, acting_as
from jobs.telemetry import get_logger
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant

log = get_logger()
#: Unfinished operations a tenant may have.
MAX_UNFINISHED = 10
#: Items of a slice. While it lasts nothing of the tenant is dispatched: about a tenth of a second.
SLICE = 250
#: A slice ends with the job that brings the triggers it writes above so many,
MAX_TRIGGERS = 2_500
#: and where one job of it fails as nobody foresaw, so many are done one by one, to find out which.
SLICE_ALONE = 25
#: The SQLSTATE of a statement that took longer than it may.
QUERY_CANCELED = "57014"
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


class Selection(NamedTuple):
    """The next ``ids`` that match, and the last id that was looked at; with ``ends`` there are no more behind it."""

    ids: list[UUID]
    last: UUID
    ends: bool


#: Of an operation's row, and how many at most.
Select = Callable[[Any, int], Selection]


def begin_operation(*, tenant: Tenant, verb: str, wanted: dict[str, str]) -> Operation:
    """Put an operation on record; the beats take it up. ``wanted`` is a filter that was checked.

    Raises ``Conflict`` when ``MAX_UNFINISHED`` of the tenant's are unfinished.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        begun = operations_store.begin(tenant_id=tenant.id, verb=verb, wanted=wanted, most=MAX_UNFINISHED)
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
    """Do nothing more of it; what was done stays done. May be repeated. Raises ``Conflict`` when it has finished."""
    operation = find_operation(tenant=tenant, operation_id=operation_id)
    stopped = operations_store.cancel(operation_id=operation.id, tenant_id=tenant.id)
    operation.refresh_from_db()
    if not stopped and not operation.cancelled:
        raise Conflict("The operation has finished already.")
    return operation


def advance(select: Select) -> bool:
    """Do one slice of the operation that has waited longest. False: there is none, or other beats have them in hand."""
    with db.atomic():
        operation = operations_store.take()
        if operation is None:
            return False
        try:
            with acting_as(operation.asked_by and Actor(**operation.asked_by)), db.atomic():
                _do_slice(operation, select)
        except db.DISCONNECTED:
            raise
        except db.StatementFailed as error:
            # Somebody has the tenant locked. Let the other operations have their turn; this one comes after them.
            log.info("operation waits", id=str(operation.id), error=str(error).strip().splitlines()[:1])
            operations_store.postpone(operation_id=operation.id)
        except Exception:
            log.exception("operation failed", id=str(operation.id))
            operations_store.postpone(operation_id=operation.id)
    return True


def representation(operation: Operation) -> dict[str, Any]:
    """The operation as the API shows it."""
    ended = "cancelled" if operation.cancelled else "finished"
    return OperationShape.of(
        operation,
        status=ended if operation.finished_at else "running",
        refusals=operation.refusals[: operations_store.MAX_REFUSALS],
    )


def _do_slice(operation: Any, select: Select) -> None:
    tenant = Tenant.objects.get(id=operation.tenant_id)
    chosen = select(operation, SLICE)
    done, refusals = _carry_out(operation.verb, tenant, chosen.ids) if chosen.ids else (0, {})
    whole = done == len(chosen.ids)
    operations_store.note(
        operation_id=operation.id,
        cursor=chosen.last if whole else chosen.ids[done - 1],
        done=done - len(refusals),
        refused=len(refusals),
        refusals=[{"id": str(key), "detail": detail} for key, detail in refusals.items()],
        ends=chosen.ends and whole,
    )


def _carry_out(verb: str, tenant: Tenant, ids: list[UUID]) -> tuple[int, statuses.Refusals]:
    """Do it to the first of them; returns to how many, and to which it could not be done, with why."""
    if verb == "replay":
        lifecycle.lock_tenant(tenant.id)
        wake_beats()
        replayed = set(lifecycle.replay(trigger_ids=ids, tenant_id=tenant.id))
        why = "It has not ended, or its job is cancelled or deleted."
        return len(ids), {one: why for one in ids if one not in replayed}
    try:
        with db.atomic():
            return _together(verb, tenant, ids)
    except db.DISCONNECTED:
        raise
    except db.StatementFailed as error:
        if not _took_too_long(error):
            raise
        log.info("operation goes on job by job", verb=verb, tenant=tenant.slug)
    except Exception:
        log.exception("operation goes on job by job", verb=verb, tenant=tenant.slug)
    alone = ids[:SLICE_ALONE]
    return len(alone), {one: why for one in alone if (why := _refused(verb, tenant, one))}


def _together(verb: str, tenant: Tenant, ids: list[UUID]) -> tuple[int, statuses.Refusals]:
    locked = {job.id: job for job in job_actions.lock_jobs(tenant, ids)}
    taken = _as_many_as_may_be(verb, ids, locked)
    gone = {one: "There is no such job." for one in taken if one not in locked}
    refusals = gone | _TOGETHER[verb]([locked[one] for one in taken if one in locked])
    return len(taken), {one: refusals[one] for one in taken if one in refusals}


def _as_many_as_may_be(verb: str, ids: list[UUID], locked: dict[UUID, Job]) -> list[UUID]:
    """One job may have thousands of triggers waiting, or owe them: then the slice ends with it."""
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


def _refused(verb: str, tenant: Tenant, job_id: UUID) -> str:
    """Why it could not be done to one job; empty when it was."""
    try:
        with db.atomic():
            _ALONE[verb](tenant=tenant, job_id=job_id)
    except CarillonError as error:
        return str(error)
    except db.DISCONNECTED:
        raise
    except db.StatementFailed as error:
        if not _took_too_long(error):
            raise
        return "It has so many triggers that this takes too long among others; do it to this job alone."
    except Exception:
        # One job that nobody foresaw must not keep the operation from the others for ever.
        log.exception("operation failed on a job", verb=verb, job_id=str(job_id))
        return "Something went wrong on our side; it has been logged."
    return ""


def _took_too_long(error: db.StatementFailed) -> bool:
    """Whether it is for what was asked, and not for somebody's lock, which is gone sooner or later."""
    return db.sqlstate(error) == QUERY_CANCELED

"""Operations on runs of workflows: a slice does to each run the same as the call for one run, until its time is over.

Cancelling takes two slices, as the call for one run takes two transactions. The first locks the run's row and lets
nothing more of the run start. The second asks the running triggers of the run to stop. A worker that holds a trigger
waits for its run's row, so no slice may wait for triggers while it holds the row of a run.
"""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID

from jobs.actions.workflows import runs
from jobs.core.errors import CarillonError
from jobs.models import WorkflowRun
from jobs.store import db, lifecycle
from jobs.store import workflows as store
from jobs.telemetry import get_logger
from tenants.models import Tenant

log = get_logger()
#: A slice ends with the run that brings it beyond this: one run may have thousands of tasks.
SLICE_SECONDS = 0.25
OUR_FAULT = "Something went wrong on our side; it has been logged."
_ACTS: dict[str, Callable[..., Any]] = {
    "pause_runs": runs.pause_run,
    "resume_runs": runs.resume_run,
    "retry_runs": runs.retry_run,
}


class Slice(NamedTuple):
    """The first ``items`` ids are finished. ``done``: to how many runs it was done; ``refusals``: by id, why not."""

    items: int
    done: int
    refusals: dict[UUID, str]


def carry_out(verb: str, *, tenant: Tenant, ids: Sequence[UUID]) -> Slice:
    """Do it to the first of these runs, in the order of their ids. Call it in a transaction."""
    if verb == "cancel_runs":
        return _cancel(tenant, ids)
    items, refusals = _each(ids, lambda one: _ACTS[verb](tenant=tenant, run_id=one))
    return Slice(items, items - len(refusals), refusals)


def _cancel(tenant: Tenant, ids: Sequence[UUID]) -> Slice:
    """Do the second step to the first of the runs that have had the first step; if there are none, the first step."""
    found = WorkflowRun.objects.filter(tenant=tenant, id__in=ids, cancel_requested=True)
    asked = set(found.values_list("id", flat=True))
    if begun := list(takewhile(asked.__contains__, ids)):
        lifecycle.lock_tenant(tenant.id)
        items, refusals = _each(begun, lambda one: store.cancel_started(run_id=one, tenant_id=tenant.id))
        return Slice(items, 0, refusals)
    # Runs that still run are chosen again, for their second step. A refusal is told once its run is the first.
    items, refusals = _each(
        list(takewhile(lambda one: one not in asked, ids)),
        lambda one: runs.begin_cancel(tenant=tenant, run_id=one),
        stop=True,
    )
    if ids[0] in refusals:
        return Slice(1, 0, refusals)
    return Slice(0, items - len(refusals), {})


def _each(
    ids: Sequence[UUID], act: Callable[[UUID], Any], *, stop: bool = False
) -> tuple[int, dict[UUID, str]]:
    """Act on the first of the runs; returns on how many, and which refused, with why. ``stop``: end at the first run
    that refuses.
    """
    began, refusals, items = time.monotonic(), {}, 0
    for one in ids:
        items += 1
        if why := _refused(act, one):
            refusals[one] = why
        if (why and stop) or time.monotonic() - began > SLICE_SECONDS:
            break
    return items, refusals


def _refused(act: Callable[[UUID], Any], run_id: UUID) -> str:
    """Why it could not be done; empty when it was."""
    try:
        with db.atomic():
            act(run_id)
    except CarillonError as error:
        return str(error)
    except db.TRANSIENT:
        raise
    except Exception:
        # One run that fails in an unforeseen way must not keep the operation from the others for ever.
        log.exception("operation failed on a run", run_id=str(run_id))
        return OUR_FAULT
    return ""

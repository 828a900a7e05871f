"""Pauses that end by themselves: jobs whose pause is over are resumed, as by hand.

Any beat does it, some hundreds of jobs of one tenant at a time, each batch in one transaction. Two beats do not meet:
a beat leaves rows that another one holds to it. Every firing that falls due after the end set for the pause runs,
however late a beat comes to it.
"""

from collections.abc import Sequence
from uuid import UUID

from jobs.actions.bulk import statuses
from jobs.models import Job
from jobs.store import db, lifecycle
from jobs.store import jobs as job_store
from jobs.store.trail import ENGINE, acting_as
from jobs.telemetry import get_logger

log = get_logger()
#: While they are resumed, nothing of their tenant is dispatched: about a tenth of a second.
BATCH = 250
#: The most tenants that are passed over in one look, each after 50 ms at most.
MAX_HELD_UP = 10


def end_pauses() -> bool:
    """Resume a batch of the jobs whose pause is over. Returns whether there may be more.

    A tenant whose lock or jobs are held elsewhere waits for the next look; the others do not wait for it.
    """
    held_up: list[int] = []
    while len(held_up) < MAX_HELD_UP and (over := job_store.pauses_over(but=held_up, limit=BATCH)):
        tenant_id = over[0].tenant_id
        try:
            if _resume(tenant_id, [row.id for row in over if row.tenant_id == tenant_id]):
                return True
        except db.StatementFailed as error:
            log.warning("pauses not ended", tenant_id=tenant_id, error=str(error))
        held_up.append(tenant_id)
    return False


def _resume(tenant_id: int, job_ids: Sequence[UUID]) -> bool:
    """Resume those of these jobs that can be locked. Returns whether there were any."""
    with acting_as(ENGINE), db.atomic():
        lifecycle.lock_tenant(tenant_id)
        held = job_store.hold_paused(job_ids)
        jobs = list(Job.with_hidden.filter(id__in=held).defer("payload", "labels", "notify").order_by("id"))
        for job_id, why in statuses.resume(jobs).items():
            job_store.refuse_end_of_pause(job_id, reason=why)
    return bool(held)

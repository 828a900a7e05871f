"""Pauses that end by themselves: the jobs whose end has come are resumed, as by hand.

Any beat does it, some hundreds of one tenant's at a time, each batch in one transaction. Two beats do not meet: rows
that another holds are left to it. Whatever falls due after the end that was set runs, as late as a beat comes to it.
"""

from jobs.actions.bulk import statuses
from jobs.models import Job
from jobs.store import db, lifecycle
from jobs.store import jobs as job_store
from jobs.store.trail import ENGINE, acting_as

#: While they are resumed nothing of their tenant is dispatched: about a tenth of a second.
BATCH = 250


def end_pauses() -> bool:
    """Resume a batch of the jobs whose pause is over. Returns whether there may be more."""
    over = job_store.pauses_over(limit=BATCH)
    if not over:
        return False
    tenant_id = over[0].tenant_id
    with acting_as(ENGINE), db.atomic():
        lifecycle.lock_tenant(tenant_id)
        held = job_store.hold_paused([row.id for row in over if row.tenant_id == tenant_id])
        jobs = list(Job.objects.filter(id__in=held).defer("payload", "labels", "notify").order_by("id"))
        for job_id, why in statuses.resume(jobs).items():
            job_store.refuse_end_of_pause(job_id, reason=why)
    return bool(held)

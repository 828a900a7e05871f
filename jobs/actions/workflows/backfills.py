"""Backfills of a workflow's schedule: runs for the instants of a past stretch that had none.

They are backfills of the hidden job that is the schedule (``jobs.actions.backfill``). Each function raises
``NotFound``, and ``Conflict`` where the workflow has no schedule.
"""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobs.actions import backfill as backfills
from jobs.actions.backfill import Extent
from jobs.actions.workflows import schedules
from jobs.actions.workflows.definitions import find_workflow
from jobs.models import CatchUp, Job
from jobs.store import db, lifecycle
from tenants.models import Tenant


def backfill_workflow(
    *, tenant: Tenant, workflow_id: UUID | str, **wanted: Any
) -> tuple[Extent, CatchUp | None]:
    """As ``backfill`` of a job, with its keywords."""
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        return backfills.backfill(_locked(tenant, workflow_id), **wanted)


def cancel_backfill(*, tenant: Tenant, workflow_id: UUID | str, backfill_id: UUID | str) -> CatchUp:
    """As ``cancel_of`` a job."""
    return backfills.cancel_of(_schedule(tenant, workflow_id), backfill_id)


def backfills_of(*, tenant: Tenant, workflow_id: UUID | str) -> QuerySet[CatchUp]:
    return backfills.backfills(_schedule(tenant, workflow_id))


def _locked(tenant: Tenant, workflow_id: UUID | str) -> Job:
    return schedules.locked(find_workflow(tenant=tenant, workflow_id=workflow_id))


def _schedule(tenant: Tenant, workflow_id: UUID | str) -> Job:
    return schedules.read(find_workflow(tenant=tenant, workflow_id=workflow_id))

"""What people do to triggers: cancel one, replay one, some, or all dead letters (DESIGN §4).

The API, the admin and the commands write through these functions alone. Each batch is one transaction under the
tenant's lock. Triggers that are not the tenant's are never told apart from missing ones: ``NotFound``.
"""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from jobs.actions.jobs import parse_id
from jobs.core.errors import Conflict, NotFound
from jobs.core.states import ENDED, JobStatus, TriggerState
from jobs.models import Trigger
from jobs.models.trigger import DEAD_LETTERS
from jobs.store import db, lifecycle
from jobs.wakeups import wake_beats
from tenants.models import Tenant


def find_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """The trigger of that id, for reading. Raises ``NotFound``."""
    wanted = parse_id(trigger_id, "trigger")
    trigger = Trigger.objects.select_related("job").filter(tenant=tenant, id=wanted).first()
    if trigger is None:
        raise NotFound("There is no such trigger.")
    return trigger


def cancel_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """Cancel a waiting trigger, or ask a running one to stop (it ends when its handler yields or times out).

    May be repeated. Raises ``Conflict`` when it has ended otherwise, ``NotFound``.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        trigger = find_trigger(tenant=tenant, trigger_id=trigger_id)
        done = lifecycle.cancel(trigger_id=trigger.id, tenant_id=tenant.id)
        trigger.refresh_from_db()
        if not done and trigger.state != TriggerState.CANCELLED:
            raise Conflict(f"The trigger has ended already: it is {trigger.state}.")
        return trigger


def replay_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """Send an ended trigger through once more: fresh retry budget, same idempotency key.

    Raises ``Conflict`` when it has not ended or its job is cancelled or deleted, ``NotFound``.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        trigger = find_trigger(tenant=tenant, trigger_id=trigger_id)
        if lifecycle.replay(trigger_ids=[trigger.id], tenant_id=tenant.id):
            trigger.refresh_from_db()
            wake_beats()
            return trigger
    if trigger.state not in ENDED:
        raise Conflict(f"The trigger has not ended: it is {trigger.state}.")
    gone = "deleted" if trigger.job.deleted_at else JobStatus(trigger.job.status).value
    raise Conflict(f"Its job is {gone}; what belongs to it is not replayed.")


def replay_triggers(*, tenant: Tenant, trigger_ids: Sequence[UUID]) -> list[UUID]:
    """Replay those of ``trigger_ids`` (at most 1,000) that can be; returns their ids.

    Those unfinished, of a cancelled or deleted job, or not the tenant's, are left out without a word.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        wake_beats()
        return lifecycle.replay(trigger_ids=list(trigger_ids), tenant_id=tenant.id)


def replay_dead_letters(
    *, tenant: Tenant | None, queryset: QuerySet[Trigger] | None = None, batch: int = 500
) -> int:
    """Replay every dead trigger of ``queryset`` (all when None) that belongs to ``tenant``; returns how many.

    ``tenant=None`` is the operator's: those of every tenant. Works in batches by ascending id, a transaction each, so
    the tenant is never locked for long and one that dies again meanwhile is not taken twice; what was replayed before
    a failure stays replayed, and the call may be repeated.
    """
    dead = (Trigger.objects.all() if queryset is None else queryset).filter(DEAD_LETTERS).order_by()
    if tenant is not None:
        return _replay_all(dead, tenant.id, batch)
    owners = list(dead.values_list("tenant_id", flat=True).distinct())
    return sum(_replay_all(dead, tenant_id, batch) for tenant_id in owners)


def _replay_all(dead: QuerySet[Trigger], tenant_id: int, batch: int) -> int:
    replayed, after = 0, UUID(int=0)
    while True:
        following = dead.filter(tenant_id=tenant_id, id__gt=after).order_by("id")
        ids = list(following.values_list("id", flat=True)[:batch])
        if not ids:
            return replayed
        with db.atomic():
            lifecycle.lock_tenant(tenant_id)
            replayed += len(lifecycle.replay(trigger_ids=ids, tenant_id=tenant_id))
            wake_beats()
        after = ids[-1]

"""Actions on triggers: cancel one, replay one, replay or dismiss some or all dead letters (DESIGN §4).

The API, the admin and the commands write through these functions alone. Each batch is one transaction under the
tenant's lock. The audit trail names the actor: in a row for one trigger, and in one row for all that were replayed or
dismissed at once. Triggers that are not the tenant's are never told apart from missing ones: ``NotFound``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from jobs.actions.jobs import parse_id
from jobs.core.errors import Conflict, NotFound
from jobs.core.states import ENDED, JobStatus, TriggerState
from jobs.models import Attempt, Change, Trigger
from jobs.models.firings.trigger import DEAD_LETTERS
from jobs.store import db, lifecycle, trail
from jobs.wakeups import wake_beats
from tenants.models import Tenant

#: The most ids that an entry of the audit trail for many triggers names.
MAX_NAMED = 20
_REPLAYED, _DISMISSED = Change.Action.REPLAYED, Change.Action.DISMISSED


def find_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """The trigger of that id, for reading. Raises ``NotFound``."""
    wanted = parse_id(trigger_id, "trigger")
    trigger = Trigger.objects.select_related("job").filter(tenant=tenant, id=wanted).first()
    if trigger is None:
        raise NotFound("There is no such trigger.")
    return trigger


def find_attempt(*, tenant: Tenant, attempt_id: UUID | str) -> Attempt:
    """The attempt of that id with its output, for reading. Raises ``NotFound``."""
    wanted = parse_id(attempt_id, "attempt")
    attempt = Attempt.objects.defer(None).filter(tenant_id=tenant.id, id=wanted).first()
    if attempt is None:
        raise NotFound("There is no such attempt.")
    return attempt


def cancel_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """Cancel a waiting trigger, or ask a running one to stop (it ends when its handler yields or times out).

    May be repeated. Raises ``Conflict`` when it has ended otherwise, ``NotFound``.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        trigger = find_trigger(tenant=tenant, trigger_id=trigger_id)
        name, before = trigger.job.name, _facts(trigger)
        done = lifecycle.cancel(trigger_id=trigger.id, tenant_id=tenant.id)
        trigger.refresh_from_db()
        if not done and trigger.state != TriggerState.CANCELLED:
            raise Conflict(f"The trigger has already ended: it is {trigger.state}.")
        if done:
            _note(trigger, name, Change.Action.CANCELLED, before)
        if trigger.workflow_run_id is not None:
            wake_beats()  # its end may start the next task
        return trigger


def replay_trigger(*, tenant: Tenant, trigger_id: UUID | str) -> Trigger:
    """Send an ended trigger through once more: fresh retry budget, same idempotency key.

    Raises ``Conflict`` when it has not ended, is a task of a workflow run, or its job is cancelled or deleted,
    ``NotFound``.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        trigger = find_trigger(tenant=tenant, trigger_id=trigger_id)
        name, before = trigger.job.name, _facts(trigger)
        if lifecycle.replay(trigger_ids=[trigger.id], tenant_id=tenant.id):
            trigger.refresh_from_db()
            _note(trigger, name, Change.Action.REPLAYED, before)
            wake_beats()
            return trigger
    if trigger.state not in ENDED:
        raise Conflict(f"The trigger has not ended: it is {trigger.state}.")
    if trigger.workflow_run_id is not None:
        raise Conflict(
            "It is a task of a workflow run: retry the run, which also decides what follows from it."
        )
    gone = "deleted" if trigger.job.deleted_at else JobStatus(trigger.job.status).value
    raise Conflict(f"Its job is {gone}; its triggers are not replayed.")


def replay_triggers(*, tenant: Tenant, trigger_ids: Sequence[UUID]) -> list[UUID]:
    """Replay those of ``trigger_ids`` (at most 1,000) that can be; returns their ids.

    Triggers that are unfinished, belong to a cancelled or deleted job or a workflow run, or are not the tenant's, are
    left out without a word.
    """
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        wake_beats()
        replayed = lifecycle.replay(trigger_ids=list(trigger_ids), tenant_id=tenant.id)
        _note_many(tenant, _REPLAYED, len(replayed), {"ids": _named(replayed)})
        return replayed


def dismiss_trigger(*, tenant: Tenant, trigger_id: UUID | str, note: str) -> Trigger:
    """Take a dead letter out of the list of dead letters, with a note. Raises ``Conflict``, ``NotFound``."""
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        trigger = find_trigger(tenant=tenant, trigger_id=trigger_id)
        if not lifecycle.dismiss(trigger_ids=[trigger.id], tenant_id=tenant.id, note=note):
            if trigger.state != TriggerState.DEAD:
                raise Conflict(f"Only dead letters are dismissed: the trigger is {trigger.state}.")
            raise Conflict(f"{trigger.dismissed_by} has already dismissed it.")
        trail.note(
            tenant_id=tenant.id,
            kind=Change.Kind.TRIGGER,
            object_id=trigger.id,
            name=trigger.job.name,
            action=Change.Action.DISMISSED,
            changes={"note": [None, note], "job": [None, trigger.job_id]},
        )
        trigger.refresh_from_db()
        return trigger


def dismiss_triggers(*, tenant: Tenant, trigger_ids: Sequence[UUID], note: str) -> list[UUID]:
    """Dismiss those of ``trigger_ids`` (at most 1,000) that are dead letters of the tenant's; returns their ids."""
    with db.atomic():
        lifecycle.lock_tenant(tenant.id)
        dismissed = lifecycle.dismiss(trigger_ids=list(trigger_ids), tenant_id=tenant.id, note=note)
        _note_many(tenant, _DISMISSED, len(dismissed), {"ids": _named(dismissed), "note": note})
        return dismissed


def dismiss_dead_letters(
    *, tenant: Tenant, queryset: QuerySet[Trigger], note: str, chosen: Mapping[str, Any], batch: int = 500
) -> int:
    """Dismiss every dead letter of ``queryset`` that belongs to ``tenant``; returns how many.

    It works in batches, and puts ``chosen`` on the trail, as ``replay_dead_letters`` does.
    """

    def dismiss(ids: list[UUID]) -> int:
        return len(lifecycle.dismiss(trigger_ids=ids, tenant_id=tenant.id, note=note))

    dead = queryset.filter(DEAD_LETTERS).order_by()
    return _do_all(dead, tenant, _Deed(_DISMISSED, dismiss, dead), {**chosen, "note": note}, batch)


def replay_dead_letters(
    *,
    tenant: Tenant | None,
    queryset: QuerySet[Trigger] | None = None,
    chosen: Mapping[str, Any] | None = None,
    batch: int = 500,
) -> int:
    """Replay every dead trigger of ``queryset`` (all when None) that belongs to ``tenant``; returns how many.

    ``tenant=None`` is for operators: triggers of every tenant. ``chosen`` says how they were chosen, for the audit
    trail, such as ``{"filter": …}``. Works in batches by ascending id, a transaction each, so the tenant is never
    locked for long and a trigger that dies again meanwhile is not taken twice. Triggers that were replayed before a
    failure stay replayed, and the call may be repeated.
    """
    dead = (Trigger.objects.all() if queryset is None else queryset).filter(DEAD_LETTERS).order_by()
    told = {"filter": {}} if chosen is None else chosen
    owners = [tenant] if tenant is not None else _owners(dead)
    return sum(_replay_all(dead, owner, told, batch) for owner in owners)


def _owners(dead: QuerySet[Trigger]) -> QuerySet[Tenant]:
    ids = list(dead.values_list("tenant_id", flat=True).distinct())
    return Tenant.objects.filter(id__in=ids).order_by("id")


def _replay_all(dead: QuerySet[Trigger], tenant: Tenant, told: Mapping[str, Any], batch: int) -> int:
    def replay(ids: list[UUID]) -> int:
        wake_beats()
        return len(lifecycle.replay(trigger_ids=ids, tenant_id=tenant.id))

    gone = (
        Q(job__status=JobStatus.CANCELLED)
        | Q(job__deleted_at__isnull=False)
        | Q(workflow_run_id__isnull=False)
    )
    return _do_all(dead, tenant, _Deed(_REPLAYED, replay, dead.exclude(gone)), told, batch)


@dataclass(frozen=True, slots=True)
class _Deed:
    """An action on dead letters: ``act`` does it to a batch and returns to how many; ``fitting`` are those it suits."""

    action: Change.Action
    act: Callable[[list[UUID]], int]
    fitting: QuerySet[Trigger]


def _do_all(dead: QuerySet[Trigger], tenant: Tenant, deed: _Deed, told: Mapping[str, Any], batch: int) -> int:
    total, after, is_told = 0, UUID(int=0), False
    while True:
        rest = {"tenant_id": tenant.id, "id__gt": after}
        ids = list(dead.filter(**rest).order_by("id").values_list("id", flat=True)[:batch])
        if not ids:
            return total
        # The trail tells of all of them once, with the first batch, so that nothing is done without an entry.
        expected = deed.fitting.filter(**rest).count() if not is_told and len(ids) == batch else 0
        with db.atomic():
            lifecycle.lock_tenant(tenant.id)
            done = deed.act(ids)
            if not is_told:
                is_told = _note_many(tenant, deed.action, max(done, expected), told)
        total += done
        after = ids[-1]


def _facts(trigger: Trigger) -> dict[str, Any]:
    return {"state": str(trigger.state), "cancel_requested": trigger.cancel_requested}


def _note(trigger: Trigger, name: str, action: str, before: Mapping[str, Any]) -> None:
    """Put the changes of one trigger on the trail; to ask for the same again changes nothing."""
    changes = {what: [before[what], now] for what, now in _facts(trigger).items() if before[what] != now}
    if changes:
        trail.note(
            tenant_id=trigger.tenant_id,
            kind=Change.Kind.TRIGGER,
            object_id=trigger.id,
            name=name,
            action=action,
            changes={**changes, "job": [None, trigger.job_id]},
        )


def _named(ids: Sequence[UUID]) -> list[str]:
    return [str(one) for one in ids[:MAX_NAMED]]


def _note_many(tenant: Tenant, action: Change.Action, count: int, told: Mapping[str, Any]) -> bool:
    """Put on the trail, as one row, an action on so many triggers; nothing if there are none."""
    if count:
        trail.note(
            tenant_id=tenant.id,
            kind=Change.Kind.TENANT,
            object_id=tenant.id,
            name=tenant.slug,
            action=action,
            changes={"triggers": [None, count], **{what: [None, value] for what, value in told.items()}},
        )
    return bool(count)

"""Notices: ``notify`` of a job, of a workflow, and of a tenant for all its jobs and workflows that have none."""

from typing import Any

from jobs.actions.vault import check_secrets
from jobs.handlers import registry
from jobs.models import Job, Workflow
from jobs.shapes.notify import TenantNotify
from tenants.models import Tenant

#: Outcomes of triggers that become events only on request.
_WATCHED = frozenset({"succeeded", "failed"})


def check_secrets_of(
    notify: dict[str, Any] | None, *, tenant: Tenant, base: Job | Workflow | Tenant | None
) -> None:
    """Refuse a ``notify`` whose URL refers to secrets that ``tenant`` does not have. Raises ``InvalidInput``.

    A ``notify`` that ``base`` has already is left alone: a secret may have been deleted since.
    """
    webhook = registry.get("webhook")
    assert webhook.secrets is not None
    assert webhook.target is not None
    if notify and "url" in notify and not (base and notify == base.notify):
        names = [name for some in webhook.secrets(notify).values() for name in some]
        check_secrets({"url": names}, tenant=tenant, target=webhook.target(notify))


def is_watched(notify: dict[str, Any] | None) -> bool:
    """Whether it asks for outcomes that become events only on request."""
    return notify is not None and not _WATCHED.isdisjoint(notify["on"])


def set_tenant_notify(*, tenant: Tenant, notify: object) -> dict[str, Any] | None:
    """Send notices of all the tenant's jobs and workflows that have no ``notify`` of their own; None: of none.

    May be repeated. Returns what is stored. Raises ``InvalidInput``.
    """
    stored = None if notify is None else TenantNotify.read(notify).stored()
    check_secrets_of(stored, tenant=tenant, base=tenant)
    tenant.notify, tenant.watched = stored, is_watched(stored)
    tenant.save(update_fields=["notify", "watched", "updated_at"])
    return stored

"""The secrets that a claimed batch needs, opened for as long as the batch exists."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from jobs.conf import engine_settings
from jobs.handlers.context import unreadable
from jobs.handlers.placeholders import MAX_NAMES
from jobs.handlers.registry import JobType
from jobs.store import db
from tenants.vault.sealing import Unreadable
from tenants.vault.secrets import Opened, open_secrets
from tenants.vault.signing import open_signing_secrets

NO_SECRETS: Mapping[str, Opened] = {}


def secrets_of(job_type: JobType, rows: Sequence[Any]) -> dict[UUID, dict[str, Opened]]:
    """The secrets each trigger's payload refers to, by its id: one look-up for all, and none where no payload does."""
    if job_type.secrets is None:
        return {}
    wanted = {row.id: (row.tenant_id, names) for row in rows if (names := _names_of(job_type, row.payload))}
    if not wanted:
        return {}
    of_tenants: dict[int, set[str]] = defaultdict(set)
    for tenant_id, names in wanted.values():
        of_tenants[tenant_id] |= names
    found = db.until_connected(
        partial(open_secrets, of_tenants),
        patience_seconds=engine_settings().worker_lease_seconds,
        what="look up secrets",
    )
    return {
        trigger_id: {name: found[tenant_id, name] for name in names if (tenant_id, name) in found}
        for trigger_id, (tenant_id, names) in wanted.items()
    }


def _names_of(job_type: JobType, payload: Any) -> set[str]:
    """The payload's secrets; none if its type refuses it or if it has too many: its handler will say so."""
    assert job_type.secrets is not None
    try:
        found = {name for names in job_type.secrets(payload).values() for name in names}
    except (LookupError, TypeError, AttributeError):
        return set()
    return found if len(found) <= MAX_NAMES else set()


def signing_secret(tenant_id: int, sealed: str) -> str:
    """The secret that signs a tenant's webhooks. Raises ``HandlerError``."""
    try:
        return open_signing_secrets(tenant_id, sealed)
    except Unreadable:
        raise unreadable("The tenant's signing secret") from None

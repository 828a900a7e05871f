"""Actions of operators on tenants and their keys over the API: the rules are those of ``tenants.actions``.

No key of the installation can make, see or revoke another: such keys are made and revoked where the installation runs
(``manage.py create_operator_key``). So a stolen key cannot copy itself and cannot lock operators out. Keys of tenants
that it made outlive its revocation; the audit trail names them.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, QuerySet

from jobs.actions.jobs import EditedMeanwhile
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.shapes.installation import (
    CreatedKey,
    CreatedTenant,
    InstallationTenant,
    KeyShape,
    NewKey,
    NewTenant,
    TenantChanges,
)
from jobs.store import db
from jobs.wakeups import wake_beats
from tenants.actions import create_api_key, create_tenant, revoke_api_key, update_tenant
from tenants.clock import database_now
from tenants.models import SLUG, ApiKey, Tenant
from tenants.vault.signing import open_signing_secrets

_PREFIX = re.compile("[a-z0-9]{12}")


def find_tenant(slug: str) -> Tenant:
    """The tenant of that slug. Raises ``NotFound``, also for a text that can be no slug."""
    found = Tenant.objects.filter(slug=slug).first() if re.fullmatch(SLUG.regex, slug) else None
    if found is None:
        raise NotFound("There is no such tenant.")
    return found


def find_key(slug: str, prefix: str) -> ApiKey:
    """The key of that tenant. Raises ``NotFound``."""
    tenant = find_tenant(slug)
    found = tenant.api_keys.filter(prefix=prefix).first() if _PREFIX.fullmatch(prefix) else None
    if found is None:
        raise NotFound("There is no such key.")
    return found


def keys_of(slug: str) -> QuerySet[ApiKey]:
    """A tenant's keys, with their ``number`` in the order of creation. Raises ``NotFound``."""
    return find_tenant(slug).api_keys.annotate(number=F("id"))


def create(*, definition: object) -> dict[str, Any]:
    """Create a tenant as JSON says; returns it with its signing secret. Raises ``InvalidInput``, ``Conflict``."""
    given = NewTenant.read(definition).given
    with db.atomic():
        if Tenant.objects.filter(slug=given["slug"]).exists():
            raise Conflict("A tenant with this slug exists.", field="slug")
        try:
            with _refused():
                tenant = create_tenant(**given)
        except InvalidInput as error:
            # Another call was faster.
            if Tenant.objects.filter(slug=given["slug"]).exists():
                raise Conflict("A tenant with this slug exists.", field="slug") from error
            raise
    tenant.refresh_from_db()
    secret = open_signing_secrets(tenant.id, tenant.webhook_secret)
    return CreatedTenant.of(tenant, signing_secret=secret)


def change(slug: str, *, changes: object, expected: str | None = None) -> Tenant:
    """Change a tenant as JSON says; returns it as it is now. May be repeated.

    ``expected``: the tag that it must have, if any. Raises ``InvalidInput``, ``NotFound``, ``EditedMeanwhile``.
    """
    given = TenantChanges.read(changes).given
    with db.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).get(id=find_tenant(slug).id)
        if expected is not None and expected != tag_of(tenant):
            raise EditedMeanwhile("The tenant was changed since you read it; read it again.")
        with _refused():
            tenant = update_tenant(tenant=tenant, **given)
        wake_beats()
    return tenant


def create_key(slug: str, *, definition: object) -> dict[str, Any]:
    """Create a key of a tenant as JSON says; returns it with its text. Raises ``InvalidInput``, ``NotFound``."""
    tenant, wanted = find_tenant(slug), NewKey.read(definition)
    if wanted.expires_at is not None and wanted.expires_at <= database_now():
        raise InvalidInput({"expires_at": "Must lie in the future."})
    with _refused():
        key, text = create_api_key(
            tenant=tenant,
            name=wanted.name,
            scopes=wanted.scopes,
            expires_at=wanted.expires_at,
            rate_per_second=wanted.rate_per_second,
        )
    return CreatedKey.of(key, key=text)


def revoke_key(slug: str, prefix: str) -> None:
    """Refuse a key of a tenant from now on. May be repeated. Raises ``NotFound``."""
    revoke_api_key(key=find_key(slug, prefix))


def representation(tenant: Tenant) -> dict[str, Any]:
    """The tenant as the API shows it, JSON types only."""
    return InstallationTenant.of(tenant)


def key_representation(key: ApiKey) -> dict[str, Any]:
    """The key as the API shows it, JSON types only."""
    return KeyShape.of(key)


def tag_of(tenant: Tenant) -> str:
    """The tag that an ``If-Match`` names: it stays the same until a field that operators change is changed."""
    shown = representation(tenant)
    del shown["updated_at"]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def _refused() -> Iterator[None]:
    """Translate refusals: ``tenants`` knows nothing of this project's errors."""
    try:
        yield
    except ValidationError as error:
        raise InvalidInput(error.message_dict) from None

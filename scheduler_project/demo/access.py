"""Access to the demo: three tenants with a fresh API key each, and an admin whose password is fresh at every start.

No secret is kept: keys and passwords of an earlier demo stop working. All of it may be repeated.
"""

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.db import connections

from scheduler_project.demo.scenario import TENANTS
from tenants.actions import create_api_key, create_tenant, revoke_api_key
from tenants.models import ApiKey, Tenant
from tenants.vault.signing import open_signing_secrets

KEY_NAME = "demo"
ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class Access:
    """The keys by which the demo acts for its tenants (by slug), and the login of its user."""

    api_keys: dict[str, str]
    webhook_secrets: dict[str, str]
    admin_password: str


def prepare_access() -> Access:
    """Make the missing tenants and renew the secrets. Writes to the database, so call it outside the event loop."""
    try:
        tenants = [_tenant(slug, name) for slug, name in TENANTS.items()]
        return Access(
            api_keys={tenant.slug: _fresh_key(tenant) for tenant in tenants},
            webhook_secrets={
                tenant.slug: open_signing_secrets(tenant.id, tenant.webhook_secret) for tenant in tenants
            },
            admin_password=_fresh_admin_password(),
        )
    finally:
        connections.close_all()


def _tenant(slug: str, name: str) -> Tenant:
    return Tenant.objects.filter(slug=slug).first() or create_tenant(slug=slug, name=name)


def _fresh_key(tenant: Tenant) -> str:
    for key in tenant.api_keys.filter(name=KEY_NAME, revoked_at=None):
        revoke_api_key(key=key)
    scopes = [ApiKey.Scope.READ, ApiKey.Scope.WRITE]
    _, text = create_api_key(tenant=tenant, name=KEY_NAME, scopes=scopes)
    return text


def _fresh_admin_password() -> str:
    """The password of the superuser that ``up`` has made."""
    password = secrets.token_urlsafe(12)
    admin = get_user_model()._default_manager.get(username=ADMIN)
    admin.set_password(password)
    admin.save(update_fields=["password"])
    return password

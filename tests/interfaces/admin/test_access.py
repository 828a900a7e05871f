"""Tenants, keys and secrets in the console: shown once, changed by actions."""

import json
import re

import pytest
from django.test import Client

from tenants.actions import create_tenant
from tenants.keys import authenticate
from tenants.models import ApiKey, Tenant
from tenants.vault.signing import open_signing_secrets
from tests.interfaces.admin.world import World, press, said

pytestmark = pytest.mark.django_db


class TestAccess:
    def test_a_tenants_secret_is_shown_at_its_creation_alone(self, operator: Client) -> None:
        sent = {
            "slug": "acme", "name": "Acme", "status": "active", "weight": "100", "max_in_flight": "10",
            "max_jobs": "10", "max_payload_bytes": "1000", "max_backfill": "10",
        }  # fmt: skip
        created = operator.post("/admin/tenants/tenant/add/", sent, follow=True)
        tenant = Tenant.objects.get(slug="acme")
        secret = open_signing_secrets(tenant.id, tenant.webhook_secret)
        assert secret in created.content.decode().replace("&#x3D;", "=")
        for page in ("/admin/tenants/tenant/", f"/admin/tenants/tenant/{tenant.id}/change/"):
            assert "whsec_" not in operator.get(page).content.decode()

    def test_a_rotated_signing_secret_is_shown_once_and_a_secret_never(
        self, world: World, operator: Client
    ) -> None:
        pressed = press(operator, "tenants_tenant_rotate_signing_secret", world.tenant)
        world.tenant.refresh_from_db()
        secret = open_signing_secrets(world.tenant.id, world.tenant.webhook_secret)
        assert secret in said(pressed)
        for page in ("tenants_secret_changelist", "tenants_secret_change", "tenants_tenant_history"):
            text = operator.get(world.url(page)).content.decode()
            assert world.secret.sealed not in text
            assert "value of the secret" not in text
            assert secret not in operator.get(world.url(page)).content.decode()

    def test_a_tenants_limits_can_be_edited_and_its_slug_cannot(self, operator: Client) -> None:
        tenant = create_tenant(slug="acme")
        url = f"/admin/tenants/tenant/{tenant.id}/change/"
        sent = {
            "slug": "other", "name": "Acme", "status": "frozen", "weight": "7", "max_in_flight": "10",
            "max_jobs": "10", "max_payload_bytes": "1000", "max_backfill": "10",
        }  # fmt: skip
        assert operator.post(url, sent).status_code == 302
        after = Tenant.objects.get(id=tenant.id)
        assert (after.slug, after.status, after.weight) == ("acme", "frozen", 7)
        assert after.webhook_secret == tenant.webhook_secret
        assert "weight" in operator.post(url, sent | {"weight": "0"}).context["adminform"].form.errors

    def test_a_key_is_shown_once_and_works_until_it_is_revoked(self, world: World, operator: Client) -> None:
        sent = {"tenant": str(world.tenant.id), "name": "deploy", "scopes": ["read", "write"]}
        created = operator.post("/admin/tenants/apikey/add/", sent, follow=True).content.decode()
        token = re.search(r"ck_[a-z0-9]{12}_[A-Za-z0-9_-]{43}", created)[0]
        key = ApiKey.objects.get(name="deploy")
        assert authenticate(token) == key
        page = operator.get(f"/admin/tenants/apikey/{key.id}/change/").content.decode()
        assert token not in page
        assert key.secret_hash not in page
        press(operator, "tenants_apikey_revoke", key)
        assert authenticate(token) is None

    def test_a_key_without_a_scope_is_refused_at_the_field(self, world: World, operator: Client) -> None:
        sent = {"tenant": str(world.tenant.id), "name": "deploy"}
        response = operator.post("/admin/tenants/apikey/add/", sent)
        assert list(response.context["adminform"].form.errors) == ["scopes"]
        assert json.dumps(list(ApiKey.objects.values_list("name", flat=True))) == '["ci"]'

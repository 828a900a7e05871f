"""Tenants and API keys: which are made, what is kept of a key, and who is let in."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tenants import actions
from tenants.keys import authenticate
from tenants.models import ApiKey, Tenant
from tenants.vault.signing import open_signing_secrets
from tests.factories import HOUR, MINUTE, make_tenant, now

pytestmark = pytest.mark.django_db


def key_of(tenant: Tenant | None = None, **options: Any) -> tuple[ApiKey, str]:
    return actions.create_api_key(
        tenant=tenant or make_tenant(), name="tests", scopes=options.pop("scopes", ["read"]), **options
    )


class TestCreateTenant:
    def test_makes_a_signing_secret_of_its_own(self) -> None:
        tenants = [actions.create_tenant(slug=slug) for slug in ("a", "b")]
        secrets = {open_signing_secrets(tenant.id, tenant.webhook_secret) for tenant in tenants}
        assert len(secrets) == 2
        assert all(re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret) for secret in secrets)

    def test_takes_quotas(self) -> None:
        assert actions.create_tenant(slug="a", weight=7, max_jobs=3).max_jobs == 3

    @pytest.mark.parametrize(
        ("values", "field"),
        [
            ({"slug": "Not A Slug"}, "slug"),
            ({"slug": "-a"}, "slug"),
            ({"slug": "a", "weight": 0}, "weight"),
            ({"slug": "a", "max_in_flight": 10**9}, "max_in_flight"),
            ({"slug": "a", "name": "x" * 201}, "name"),
        ],
    )
    def test_refuses(self, values: dict[str, Any], field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            actions.create_tenant(**values)
        assert list(refused.value.message_dict) == [field]
        assert not Tenant.objects.exists()

    def test_refuses_a_slug_that_is_taken(self) -> None:
        actions.create_tenant(slug="a")
        with pytest.raises(ValidationError) as refused:
            actions.create_tenant(slug="a")
        assert list(refused.value.message_dict) == ["slug"]


class TestOperatorKeys:
    @pytest.mark.parametrize("scopes", [["operator"], ["read", "operator"]])
    def test_are_never_a_tenants(self, scopes: list[str]) -> None:
        with pytest.raises(ValidationError) as refused:
            key_of(scopes=scopes)
        assert list(refused.value.message_dict) == ["scopes"]
        with pytest.raises(IntegrityError, match="apikey_operator_has_no_tenant"), transaction.atomic():
            ApiKey.objects.create(tenant=make_tenant(), name="x", prefix="a", secret_hash="b", scopes=scopes)

    @pytest.mark.parametrize("scopes", [[], ["read"], ["operator", "read"]])
    def test_have_no_other_scope(self, scopes: list[str]) -> None:
        with pytest.raises(ValidationError) as refused:
            actions.create_api_key(tenant=None, name="x", scopes=scopes)
        assert list(refused.value.message_dict) == ["scopes"]
        with pytest.raises(IntegrityError, match="apikey_operator_has_no_tenant"), transaction.atomic():
            ApiKey.objects.create(tenant=None, name="x", prefix="a", secret_hash="b", scopes=scopes)


class TestCreateApiKey:
    def test_gives_a_key_that_can_be_told_from_other_secrets(self) -> None:
        key, token = key_of()
        assert re.fullmatch(rf"ck_{key.prefix}_[A-Za-z0-9_-]{{43}}", token)
        assert re.fullmatch(r"[a-z0-9]{12}", key.prefix)

    def test_keeps_a_hash_alone(self) -> None:
        key, token = key_of()
        secret = token.split("_", 2)[2]
        assert secret not in str(ApiKey.objects.filter(id=key.id).values().get())

    @pytest.mark.parametrize("scopes", [[], ["root"], ["read", "root"], "read"])
    def test_refuses_scopes_there_are_not(self, scopes: Any) -> None:
        with pytest.raises(ValidationError) as refused:
            key_of(scopes=scopes)
        assert list(refused.value.message_dict) == ["scopes"]


class TestAuthenticate:
    def test_knows_its_keys_by_tenant(self) -> None:
        key, token = key_of()
        found = authenticate(token)
        assert found is not None
        assert (found.id, found.tenant) == (key.id, key.tenant)

    def test_refuses_another_secret_under_a_known_prefix(self) -> None:
        _, token = key_of()
        other = key_of()[1]
        assert authenticate(token[:16] + other[16:]) is None

    @pytest.mark.parametrize(
        "token", ["", "ck_", "ck_a_b", "ck_" + "a" * 12, "x" * 10_000, "ck_\0", "ck_²_³"]
    )
    def test_asks_the_database_nothing_about_what_is_no_key(self, token: str) -> None:
        with CaptureQueriesContext(connection) as queries:
            assert authenticate(token) is None
        assert len(queries) == 0

    def test_refuses_a_revoked_key_from_then_on(self) -> None:
        key, token = key_of()
        revoked_at = actions.revoke_api_key(key=key).revoked_at
        assert authenticate(token) is None
        assert actions.revoke_api_key(key=key).revoked_at == revoked_at

    def test_refuses_an_expired_key_by_the_database_s_clock(self, clock: Any) -> None:
        _, token = key_of(expires_at=now() + HOUR)
        assert authenticate(token) is not None
        clock(2 * HOUR)
        assert authenticate(token) is None

    @pytest.mark.parametrize(("status", "let_in"), [("active", True), ("frozen", True), ("suspended", False)])
    def test_asks_how_the_tenant_stands(self, status: str, let_in: bool) -> None:
        _, token = key_of(make_tenant(status=status))
        assert (authenticate(token) is not None) == let_in

    def test_notes_its_use_once_a_minute(self, clock: Any) -> None:
        key, token = key_of()
        authenticate(token)
        key.refresh_from_db()
        first = key.last_used_at
        assert first is not None
        with CaptureQueriesContext(connection) as queries:
            authenticate(token)
        assert len(queries) == 1
        clock(MINUTE + timedelta(seconds=1))
        authenticate(token)
        key.refresh_from_db()
        assert key.last_used_at is not None
        assert key.last_used_at > first

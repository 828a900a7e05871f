"""``manage.py create_tenant``."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tenants.keys import authenticate
from tenants.models import ApiKey, Tenant
from tenants.vault.signing import open_signing_secrets

pytestmark = pytest.mark.django_db


def create(*arguments: str) -> str:
    out = StringIO()
    call_command("create_tenant", *arguments, stdout=out)
    return out.getvalue()


class TestCreateTenant:
    def test_prints_one_json_object_with_a_key_that_works(self) -> None:
        printed = json.loads(create("acme", "--api-key", "demo", "--weight", "7", "--json"))
        tenant = Tenant.objects.get(slug="acme")
        assert printed.keys() == {"tenant", "api_key", "webhook_secret"}
        assert (printed["tenant"], printed["webhook_secret"]) == (
            "acme",
            open_signing_secrets(tenant.id, tenant.webhook_secret),
        )
        assert tenant.weight == 7
        key = authenticate(printed["api_key"])
        assert key is not None
        assert (key.tenant, key.scopes) == (tenant, ["read", "write"])

    def test_makes_no_key_unless_asked(self) -> None:
        assert json.loads(create("acme", "--json"))["api_key"] is None
        assert not ApiKey.objects.exists()

    def test_tells_people_that_the_key_is_shown_once(self) -> None:
        printed = create("acme", "--name", "Acme Ltd", "--api-key", "demo", "--scopes", "read")
        assert "shown this once: ck_" in printed
        assert Tenant.objects.get().name == "Acme Ltd"

    @pytest.mark.parametrize(
        "arguments", [("No Slug",), ("acme", "--weight", "0"), ("acme", "--api-key", "k", "--scopes", "x")]
    )
    def test_refuses_and_makes_neither(self, arguments: tuple[str, ...]) -> None:
        with pytest.raises(CommandError):
            create(*arguments)
        assert not Tenant.objects.exists()

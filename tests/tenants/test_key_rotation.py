"""Keys made, replaced and refused by commands."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tenants.keys import authenticate
from tenants.models import ApiKey
from tests.factories import HOUR, make_tenant, set_clock

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> dict[str, str]:
    output = StringIO()
    call_command(*arguments, "--json", stdout=output)
    return json.loads(output.getvalue())


class TestAKey:
    def test_is_made_replaced_with_an_overlap_and_refused(self, clock: object) -> None:
        tenant = make_tenant()
        old = run("create_api_key", tenant.slug, "deploy", "--scopes=read,worker", "--rate-per-second=7")
        new = run("rotate_api_key", old["prefix"], "--overlap-seconds=3600")
        keys = [authenticate(made["api_key"]) for made in (old, new)]
        assert all(keys)
        for key in keys:
            assert (key.name, key.scopes, key.rate_per_second) == ("deploy", ["read", "worker"], 7)
        assert keys[1].expires_at is None
        set_clock(HOUR + HOUR / 60)
        assert authenticate(old["api_key"]) is None
        assert authenticate(new["api_key"])
        with pytest.raises(CommandError, match="expired"):
            run("rotate_api_key", old["prefix"])
        call_command("revoke_api_key", f"ck_{new['prefix']}", stdout=StringIO())
        assert authenticate(new["api_key"]) is None

    def test_of_the_installation_is_made_replaced_and_refused(self) -> None:
        old = run("create_operator_key", "oncall")
        assert old["tenant"] is None
        new = run("rotate_api_key", old["prefix"])
        for made in (old, new):
            key = authenticate(made["api_key"])
            assert key is not None
            assert (key.tenant, key.scopes) == (None, ["operator"])
        call_command("revoke_api_key", new["prefix"], stdout=StringIO())
        assert authenticate(new["api_key"]) is None

    def test_says_whose_it_is(self) -> None:
        output = StringIO()
        call_command("create_operator_key", "oncall", stdout=output)
        assert output.getvalue().startswith("API key (operator) of the installation, shown this once: ck_")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("create_api_key", "nobody", "x"), ("create_api_key", "{slug}", "x", "--scopes=all"),
            ("create_api_key", "{slug}", "x", "--expires-in-days=0"),
            ("create_api_key", "{slug}", "x", "--scopes=operator"), ("create_operator_key", "x" * 101),
            ("create_api_key", "{slug}", "x", "--scopes=read,operator"), ("create_operator_key", "x", "--scopes=read"),
            ("create_api_key", "{slug}", "x", "--rate-per-second=0"), ("create_api_key", "{slug}", "x" * 101),
            ("rotate_api_key", "none"), ("revoke_api_key", "none"),
        ],
    )  # fmt: skip
    def test_is_refused_in_words(self, arguments: tuple[str, ...]) -> None:
        tenant = make_tenant()
        with pytest.raises(CommandError):
            call_command(*(argument.format(slug=tenant.slug) for argument in arguments))
        assert not ApiKey.objects.exists()

"""``carillon tenants`` and ``keys``: with a key of the installation, and requests that are refused."""

import pytest

from carillon.errors import FORBIDDEN, NOT_FOUND, REFUSED, USAGE
from tenants.models import ApiKey, Tenant
from tests.cli.conftest import ApiAdapter, Command
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller


@pytest.fixture
def operator(carillon: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``carillon …`` with a key of the installation."""
    monkeypatch.setenv("CARILLON_API_KEY", str(Caller.of_installation().token))
    return carillon


class TestTenants:
    def test_are_created_shown_listed_and_changed(self, operator: Command) -> None:
        queues = 'queues=["orders.*"]'
        made = operator(
            "tenants", "create", "acme", "--name", "Acme", "--set", "weight=7", "--set", queues, "-o", "json"
        )
        assert made.code == 0, made.err
        assert (made.json["weight"], made.json["queues"], made.json["name"]) == (7, ["orders.*"], "Acme")
        assert made.json["signing_secret"].startswith("whsec_")
        changed = operator(
            "tenants", "update", "acme", "--set", "rate_per_second=5", "--set", "name=A and B", "-o", "json"
        )
        assert (changed.json["rate_per_second"], changed.json["name"]) == (5, "A and B")
        assert (
            operator("tenants", "update", "acme", "--set", "rate_per_second=null", "-o", "json").json[
                "rate_per_second"
            ]
            is None
        )
        for verb, status in (("suspend", "suspended"), ("freeze", "frozen"), ("resume", "active")):
            assert operator("tenants", verb, "acme", "-o", "json").json["status"] == status
            assert Tenant.objects.get(slug="acme").status == status
            listed = operator("tenants", "list", "--status", status, "-o", "json").json
            assert "acme" in {row["slug"] for row in listed}
            assert {row["status"] for row in listed} == {status}
        assert "A and B" in operator("tenants", "show", "acme").out
        assert "acme" in operator("tenants", "list").out

    @pytest.mark.parametrize(
        ("line", "code", "word"),
        [
            (("update", "acme"), USAGE, "Nothing to change"),
            (("update", "acme", "--set", "weight"), USAGE, "FIELD=VALUE"),
            (("update", "acme", "--set", "weight=1", "--set", "weight=2"), USAGE, "twice"),
            (("update", "acme", "--set", "weight=NaN"), USAGE, "Infinite numbers"),
            (("update", "acme", "--set", "weight=0"), REFUSED, "weight → "),
            (("update", "acme", "--set", "weight=" + "9" * 5_000), REFUSED, "weight → "),
            (("update", "acme", "--set", "weight=many"), REFUSED, "weight → "),
            (("update", "acme", "--set", "slug=b"), REFUSED, "slug → "),
            (("update", "nobody", "--set", "weight=1"), NOT_FOUND, "no such object"),
            (("create", "No Slug"), REFUSED, "slug → "),
            (("list", "--status", "gone"), REFUSED, "status → "),
            (("show", ".."), USAGE, "cannot be part of a path"),
            (("suspend", ""), USAGE, "cannot be part of a path"),
        ],
    )
    def test_are_left_alone_where_that_is_wrong(
        self, operator: Command, api: ApiAdapter, line: tuple[str, ...], code: int, word: str
    ) -> None:
        Tenant.objects.create(slug="acme", name="acme")
        before = list(Tenant.objects.values())
        refused = operator("tenants", *line)
        assert (refused.code, word in refused.err) == (code, True), refused.err
        assert code != USAGE or api.sent == []
        assert list(Tenant.objects.values()) == before

    def test_are_not_for_a_tenants_key(self, carillon: Command) -> None:
        assert carillon("tenants", "list").code == FORBIDDEN
        assert carillon("keys", "create", "acme", "mine").code == FORBIDDEN


class TestKeys:
    def test_are_created_listed_and_revoked(self, operator: Command) -> None:
        slug = make_tenant().slug
        made = operator(
            "keys", "create", slug, "billing", "--scope", "worker", "--rate-per-second", "9", "-o", "json"
        )
        assert made.code == 0, made.err
        assert Caller(token=made.json["key"]).post("/worker/heartbeat", {"triggers": []}).status_code == 400
        assert (made.json["scopes"], made.json["rate_per_second"]) == (["worker"], 9)
        assert operator("keys", "create", slug, "other", "-o", "json").json["scopes"] == ["read", "write"]
        rows = operator("keys", "list", slug, "-o", "json").json
        assert [row["name"] for row in rows] == ["other", "billing"]
        assert made.json["key"] not in operator("keys", "list", slug).out
        assert operator("keys", "revoke", slug, made.json["prefix"]).code == 0
        assert Caller(token=made.json["key"]).post("/worker/heartbeat", {"triggers": []}).status_code == 401

    @pytest.mark.parametrize(
        ("line", "code", "word"),
        [
            (("create", "acme", "k", "--scope", "operator"), REFUSED, "scopes[0] → "),
            (("create", "acme", "k", "--expires-at", "yesterday"), REFUSED, "expires_at → "),
            (("create", "acme", "k", "--rate-per-second", "0"), REFUSED, "rate_per_second → "),
            (("create", "acme", "k", "--rate-per-second", "many"), USAGE, "rate-per-second"),
            (("create", "nobody", "k"), NOT_FOUND, "no such object"),
            (("revoke", "acme", "aaaaaaaaaaaa"), NOT_FOUND, "no such object"),
            (("revoke", "acme", ""), USAGE, "cannot be part of a path"),
        ],
    )
    def test_are_not_made_where_that_is_wrong(
        self, operator: Command, line: tuple[str, ...], code: int, word: str
    ) -> None:
        make_tenant(slug="acme")
        refused = operator("keys", *line)
        assert (refused.code, word in refused.err) == (code, True), refused.err
        assert not ApiKey.objects.filter(tenant__slug="acme").exists()

"""Quotas are changed by one action, refused with their range wherever they come in, and bounded by the tables too."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client

from tenants import actions
from tenants.models import RANGES, Tenant
from tests.factories import make_tenant

pytestmark = pytest.mark.django_db
OUTSIDE = [
    (name, value) for name, (low, high) in RANGES.items() for value in (low - 1, high + 1, -(2**31), 2**40)
]


def words(name: str) -> str:
    low, high = RANGES[name]
    return f"Must be a whole number from {low:,} to {high:,}."


class TestUpdateTenant:
    def test_changes_what_is_given_alone(self) -> None:
        tenant = make_tenant(weight=5)
        changed = actions.update_tenant(tenant=tenant, max_in_flight=7, status="frozen")
        assert (changed.weight, changed.max_in_flight, changed.status) == (5, 7, "frozen")
        assert Tenant.objects.get().max_in_flight == 7

    def test_lifts_a_rate(self) -> None:
        tenant = make_tenant(rate_per_second=5)
        assert actions.update_tenant(tenant=tenant, rate_per_second=None).rate_per_second is None

    @pytest.mark.parametrize(("name", "value"), OUTSIDE)
    def test_refuses_what_is_out_of_range_with_the_range(self, name: str, value: int) -> None:
        tenant = make_tenant()
        with pytest.raises(ValidationError) as refused:
            actions.update_tenant(tenant=tenant, **{name: value})
        assert refused.value.message_dict == {name: [words(name)]}
        tenant.refresh_from_db()
        assert getattr(tenant, name) != value

    @pytest.mark.parametrize(
        ("name", "value"), [("status", "gone"), ("slug", "other"), ("webhook_secret", "x"), ("bogus", 1)]
    )
    def test_refuses_what_is_no_choice_or_cannot_be_changed(self, name: str, value: Any) -> None:
        tenant = make_tenant()
        with pytest.raises(ValidationError) as refused:
            actions.update_tenant(tenant=tenant, **{name: value})
        assert list(refused.value.message_dict) == [name]

    def test_takes_both_ends_of_every_range(self) -> None:
        tenant = make_tenant()
        for name, bounds in RANGES.items():
            for value in bounds:
                assert getattr(actions.update_tenant(tenant=tenant, **{name: value}), name) == value


class TestCreateTenant:
    @pytest.mark.parametrize(("name", "value"), OUTSIDE)
    def test_refuses_what_is_out_of_range_with_the_range(self, name: str, value: int) -> None:
        with pytest.raises(ValidationError) as refused:
            actions.create_tenant(slug="acme", **{name: value})
        assert refused.value.message_dict == {name: [words(name)]}
        assert not Tenant.objects.exists()


class TestTheTable:
    @pytest.mark.parametrize("name", RANGES)
    def test_takes_nothing_out_of_range(self, name: str) -> None:
        tenant = make_tenant()
        with pytest.raises(IntegrityError), transaction.atomic():
            Tenant.objects.filter(id=tenant.id).update(**{name: RANGES[name][1] + 1})


class TestTheCommand:
    def run(self, *arguments: str) -> str:
        out = StringIO()
        call_command("update_tenant", *arguments, stdout=out)
        return out.getvalue()

    def test_changes_quotas_and_status(self) -> None:
        make_tenant(slug="acme", rate_per_second=5, rate_burst=9)
        printed = self.run("acme", "--max-in-flight", "7", "--rate-per-second", "none", "--status", "frozen")
        assert printed == "Tenant acme: status frozen, max_in_flight 7, rate_per_second None.\n"
        tenant = Tenant.objects.get()
        assert (tenant.max_in_flight, tenant.rate_per_second, tenant.rate_burst) == (7, None, 9)

    def test_prints_one_json_object(self) -> None:
        make_tenant(slug="acme")
        shown = json.loads(self.run("acme", "--weight", "7", "--json"))
        assert (shown["tenant"], shown["weight"], shown["rate_per_second"]) == ("acme", 7, None)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("acme", "--weight", "0"), "weight: Must be a whole number from 1 to 10,000."),
            (("acme", "--rate-burst", "0"), "rate_burst: Must be a whole number from 1 to 1,000,000."),
            (("acme", "--rate-burst", "much"), "whole number or none"),
            (("acme", "--status", "gone"), "status: "),
            (("acme",), "Nothing to change"),
            (("other", "--weight", "1"), "There is no tenant 'other'."),
        ],
    )
    def test_says_what_is_wrong(self, arguments: tuple[str, ...], said: str) -> None:
        make_tenant(slug="acme")
        with pytest.raises(CommandError, match=said.replace(".", r"\.")):
            self.run(*arguments)

    def test_of_creation_knows_every_quota_and_its_range(self) -> None:
        call_command(
            "create_tenant", "acme", "--max-backfill", "7", "--rate-per-second", "none", stdout=StringIO()
        )
        assert Tenant.objects.get().max_backfill == 7
        with pytest.raises(CommandError, match="max_jobs: Must be a whole number from 0 to 100,000,000"):
            call_command("create_tenant", "other", "--max-jobs", "-1", stdout=StringIO())


class TestTheConsole:
    SENT = {
        "slug": "acme", "name": "Acme", "status": "active", "weight": "100", "max_in_flight": "10", "max_jobs": "10",
        "max_payload_bytes": "1000", "max_backfill": "10",
    }  # fmt: skip

    @pytest.mark.parametrize(("name", "value"), OUTSIDE)
    def test_refuses_what_is_out_of_range_at_the_field_with_the_range(
        self, admin_client: Client, name: str, value: int
    ) -> None:
        tenant = make_tenant()
        for url in ("/admin/tenants/tenant/add/", f"/admin/tenants/tenant/{tenant.id}/change/"):
            response = admin_client.post(url, self.SENT | {name: str(value)})
            errors = response.context["adminform"].form.errors
            assert {field: list(messages) for field, messages in errors.items()} == {name: [words(name)]}
        assert Tenant.objects.count() == 1

    def test_takes_a_quota_below_what_is_in_use(self, admin_client: Client) -> None:
        tenant = make_tenant(max_jobs=1000)
        assert (
            admin_client.post(
                f"/admin/tenants/tenant/{tenant.id}/change/", self.SENT | {"max_jobs": "0"}
            ).status_code
            == 302
        )
        tenant.refresh_from_db()
        assert (tenant.max_jobs, tenant.max_backfill) == (0, 10)

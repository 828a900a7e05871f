"""Quotas are changed by one action, refused with their range wherever they come in, and bounded by the tables too."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client

from tenants import actions
from tenants.models import Tenant
from tenants.quotas import NAMES, QUOTAS, Quota, Reached
from tests.factories import make_tenant

pytestmark = pytest.mark.django_db
OUTSIDE = [
    (quota.name, value) for quota in QUOTAS for value in (quota.low - 1, quota.high + 1, -(2**31), 2**40)
]


def words(name: str) -> str:
    [quota] = [quota for quota in QUOTAS if quota.name == name]
    return f"Must be a whole number from {quota.low:,} to {quota.high:,}."


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
        for quota in QUOTAS:
            for value in (quota.low, quota.high):
                changed = actions.update_tenant(tenant=tenant, **{quota.name: value})
                assert getattr(changed, quota.name) == value


class TestCreateTenant:
    @pytest.mark.parametrize(("name", "value"), OUTSIDE)
    def test_refuses_what_is_out_of_range_with_the_range(self, name: str, value: int) -> None:
        with pytest.raises(ValidationError) as refused:
            actions.create_tenant(slug="acme", **{name: value})
        assert refused.value.message_dict == {name: [words(name)]}
        assert not Tenant.objects.exists()


class TestTheTable:
    @pytest.mark.parametrize("quota", QUOTAS, ids=NAMES)
    def test_takes_nothing_out_of_range(self, quota: Quota) -> None:
        tenant = make_tenant()
        with pytest.raises(IntegrityError), transaction.atomic():
            Tenant.objects.filter(id=tenant.id).update(**{quota.name: quota.high + 1})


class TestTheCommand:
    def run(self, *arguments: str) -> str:
        out = StringIO()
        call_command("update_tenant", *arguments, stdout=out)
        return out.getvalue()

    def test_changes_quotas_and_status(self) -> None:
        make_tenant(slug="acme", rate_per_second=5, rate_burst=9)
        printed = self.run("acme", "--max-in-flight", "7", "--rate-per-second", "6", "--status", "frozen")
        assert printed == "Tenant acme: status frozen, max_in_flight 7, rate_per_second 6.\n"
        tenant = Tenant.objects.get()
        assert (tenant.max_in_flight, tenant.rate_per_second, tenant.rate_burst) == (7, 6, 9)

    def test_lifts_a_rate_together_with_its_burst_alone(self) -> None:
        make_tenant(slug="acme", rate_per_second=5, rate_burst=9)
        with pytest.raises(CommandError, match="rate_burst: Has no effect without rate_per_second"):
            self.run("acme", "--rate-per-second", "none")
        assert Tenant.objects.get().rate_per_second == 5
        self.run("acme", "--rate-per-second", "none", "--rate-burst", "none")
        assert Tenant.objects.get().rate_burst is None

    def test_leaves_a_burst_without_a_rate_of_old_alone_when_it_changes_something_else(self) -> None:
        make_tenant(slug="acme", rate_burst=9)
        assert self.run("acme", "--weight", "7") == "Tenant acme: weight 7.\n"

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
            (("acme", "--queues", "{carillon}:rate:x"), "queues: .*Use names of queues"),
            (("acme", "--queues", ".*"), "queues: .*Use names of queues"),
            (("acme", "--disabled-types", "No Type"), "disabled_types: .*Use names of job types"),
            (("acme",), "Nothing to change"),
            (("other", "--weight", "1"), "There is no tenant 'other'."),
        ],
    )
    def test_says_what_is_wrong(self, arguments: tuple[str, ...], said: str) -> None:
        make_tenant(slug="acme")
        with pytest.raises(CommandError, match=said if ".*" in said else re.escape(said)):
            self.run(*arguments)

    def test_grants_queues_and_switches_types_off_in_place_of_what_was_there(self) -> None:
        make_tenant(slug="acme", queues=["before"])
        printed = self.run("acme", "--queues", "celery, team.*", "--disabled-types", "noop")
        assert printed == "Tenant acme: queues ['celery', 'team.*'], disabled_types ['noop'].\n"
        assert self.run("acme", "--queues", "") == "Tenant acme: queues [].\n"
        tenant = Tenant.objects.get()
        assert (tenant.queues, tenant.disabled_types) == ([], ["noop"])

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

    def test_grants_queues_and_switches_types_off(self, admin_client: Client) -> None:
        tenant = make_tenant(queues=["before"])
        url, sent = f"/admin/tenants/tenant/{tenant.id}/change/", self.SENT | {"disabled_types": "noop"}
        refused = admin_client.post(url, sent | {"queues": "celery,{carillon}:rate:x"})
        assert set(refused.context["adminform"].form.errors) == {"queues"}
        assert admin_client.post(url, sent | {"queues": "celery,team.*"}).status_code == 302
        tenant.refresh_from_db()
        assert (tenant.queues, tenant.disabled_types) == (["celery", "team.*"], ["noop"])


class TestTheDocument:
    def test_says_of_each_quota_what_happens_when_it_is_reached(self) -> None:
        said = {Reached.CONFLICT: "409", Reached.INVALID: "400", Reached.WAITS: "nothing is refused"}
        text = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
        rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
        told = {name: then for names, then in rows for name in re.findall("`([a-z_]+)`", names)}
        for quota in QUOTAS:
            assert told[quota.name].strip().startswith(said[quota.reached]), quota.name

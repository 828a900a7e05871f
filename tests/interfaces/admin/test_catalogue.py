"""The catalogue of bad input, row by row, through the console's forms: refused at the input, and nothing is stored.

The definitions are the same as those sent to the API and the command line. A form cannot say all of it: it sends text
in UTF-8, with blanks cut off. It leaves out an empty input, and one that it does not have.
"""

import json
import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs.admin.job.form import JobForm
from jobs.models import Job
from tenants.models import ApiKey, Tenant
from tests.interfaces.admin.world import PAGES, World, inputs
from tests.interfaces.api.test_catalogue import stored
from tests.interfaces.catalogue import DEFINITIONS, LATE, ROWS

pytestmark = pytest.mark.django_db

JSON_INPUTS = ("payload", "retry_policy", "labels", "notify")
#: Django's own words for these refusals.
NO_NUL = "Null characters are not allowed"
NO_NUMBER = ("Enter a whole number", "Enter a number")


def sendable(changes: dict[str, Any]) -> bool:
    """Whether a form can say these changes, and says the same by them."""
    schedule = changes.get("schedule", {})
    return (
        changes.keys() <= {*JobForm.base_fields, "schedule"}
        and "\ud800" not in str(changes.get("name", ""))
        and changes.get("timeout_seconds") != "60"
        and schedule.get("timezone") != ""
        and not str(schedule.get("cron", "")).endswith(" " * 100)
    )


SENT = [row for row in DEFINITIONS if sendable(row[1])]


def typed(changes: dict[str, Any]) -> dict[str, str]:
    """The inputs that an operator would type into the form to say these changes."""
    schedule = changes.get("schedule", {"type": "cron", "cron": "0 2 * * *"})
    own = {f"schedule_{name}": str(value) for name, value in schedule.items()}
    rest = {
        name: json.dumps(value) if name in JSON_INPUTS else str(value)
        for name, value in changes.items()
        if name != "schedule"
    }
    return inputs(schedule_cron="", schedule_timezone="") | own | rest


def input_of(field: str) -> str:
    own = field.replace(".", "_", 1)
    return own if own in JobForm.base_fields else re.split(r"[.\[]", field)[0]


def errors_of(response: HttpResponse) -> dict[str, str]:
    assert response.status_code == 200, response.status_code
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return {name: " ".join(texts) for name, texts in errors.items()}


def brief(value: object) -> str:
    """The name of a case, whose text may be long."""
    return ascii(value)[:20]


class TestADefinition:
    @pytest.mark.parametrize(
        ("row", "changes", "field", "right"),
        SENT,
        ids=[f"row {row}: {field} {n}" for n, (row, _, field, _) in enumerate(SENT)],
    )
    def test_is_refused_at_its_input(
        self, tenant: Tenant, operator: Client, row: int, changes: dict[str, Any], field: str, right: str
    ) -> None:
        before = stored()
        sent = typed(changes) | {"tenant": str(tenant.id)}
        said = errors_of(operator.post(reverse("admin:jobs_job_add"), sent))
        assert list(said) == [input_of(field)], said
        text = said[input_of(field)]
        assert any(part in text for part in (right, NO_NUL, *NO_NUMBER)), text
        assert stored() == before

    @pytest.mark.parametrize(
        ("name", "text", "right"),
        [
            ("payload", '{"x": NaN}', "send null or a string"),
            ("payload", '{"x": -Infinity}', "send null or a string"),
            ("payload", '{"x": 1e999}', "send it as a string"),
            ("payload", '{"x": ' + "9" * 5000 + "}", "send it as a string"),
            ("payload", '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "flatten it"),
            ("payload", '{"x": ' * 50_000, "flatten it"),
            ("payload", '{"x": 1, "x": 2}', "given twice"),
            ("payload", '{"x": ', "Not JSON"),
            ("retry_policy", '{"factor": NaN}', "send null or a string"),
            ("labels", '{"x": "a", "x": "b"}', "given twice"),
            ("notify", "[" * 100_000, "flatten it"),
        ],
        ids=brief,
    )
    def test_is_refused_where_its_text_is_no_json(
        self, tenant: Tenant, operator: Client, name: str, text: str, right: str
    ) -> None:
        sent = inputs(tenant=str(tenant.id), **{name: text})
        said = errors_of(operator.post(reverse("admin:jobs_job_add"), sent))
        assert list(said) == [name]
        assert right in said[name]
        assert not Job.objects.filter(name="nightly").exists()

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("max_concurrent", "\uff11\uff12"),
            ("max_concurrent", "1_000"),
            ("max_concurrent", "\u00b2"),
            ("max_concurrent", "1" + "0" * 4000),
            ("timeout_seconds", "\uff11\uff12"),
            ("timeout_seconds", "1_0"),
            ("timeout_seconds", "inf"),
            ("timeout_seconds", "1e999"),
            ("pause_after_failures", "\uff11\uff12"),
            ("max_catchup", "1_0"),
        ],
        ids=brief,
    )
    def test_is_refused_where_a_number_only_looks_like_one(
        self, tenant: Tenant, operator: Client, name: str, text: str
    ) -> None:
        sent = inputs(tenant=str(tenant.id), **{name: text})
        assert list(errors_of(operator.post(reverse("admin:jobs_job_add"), sent))) == [name]
        assert not Job.objects.filter(name="nightly").exists()

    def test_is_refused_on_an_edit_alike_and_changes_nothing(self, world: World, operator: Client) -> None:
        before = Job.objects.filter(id=world.job.id).values().get()
        url = reverse("admin:jobs_job_change", args=[world.job.id])
        for changes, name in (
            ({"name": "a\0b"}, "name"),
            ({"payload": '{"a": "\\u0000"}'}, "payload"),
            ({"schedule_cron": "R R * * *"}, "schedule_cron"),
            ({"schedule_starts_at": LATE}, "schedule_starts_at"),
            ({"max_concurrent": "1_000"}, "max_concurrent"),
            ({"version": "\uff11"}, "version"),
            ({"job_type": "none.such"}, "job_type"),
        ):
            sent = inputs(name="close-books", version="1") | changes
            assert list(errors_of(operator.post(url, sent))) == [name]
        assert Job.objects.filter(id=world.job.id).values().get() == before


class TestATenant:
    FINE = {
        "slug": "acme",
        "name": "Acme",
        "status": "active",
        "weight": "100",
        "max_in_flight": "10",
        "max_jobs": "10",
        "max_payload_bytes": "1000",
        "max_backfill": "10",
    }

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("slug", "a\0b"),
            ("slug", "\u00c4"),
            ("slug", "x" * 10_000),
            ("name", "a\0b"),
            ("name", "x" * 10_000),
            ("status", "asleep"),
            ("weight", "\uff11\uff12"),
            ("weight", "1_0"),
            ("weight", "\u00b2"),
            ("weight", "0"),
            ("max_in_flight", str(2**31)),
            ("max_in_flight", "1" + "0" * 4000),
            ("max_in_flight", "9" * 5000),
            ("max_payload_bytes", "NaN"),
            ("rate_per_second", "1e3"),
            ("rate_burst", "-1"),
        ],
        ids=brief,
    )
    def test_is_refused_at_its_input(self, operator: Client, name: str, text: str) -> None:
        said = errors_of(operator.post(reverse("admin:tenants_tenant_add"), self.FINE | {name: text}))
        assert list(said) == [name]
        assert not Tenant.objects.exists()

    def test_is_accepted_without(self, operator: Client) -> None:
        assert operator.post(reverse("admin:tenants_tenant_add"), self.FINE).status_code == 302


class TestAKey:
    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({"name": "a\0b"}, "name"),
            ({"name": "x" * 10_000}, "name"),
            ({"scopes": "everything"}, "scopes"),
            ({"tenant": "9" * 30}, "tenant"),
            ({"tenant": "\0"}, "tenant"),
            ({"tenant": "acme"}, "tenant"),
            ({"rate_per_second": "\uff11\uff12"}, "rate_per_second"),
            ({"rate_per_second": str(2**31)}, "rate_per_second"),
            ({"expires_at_0": "9999-12-31", "expires_at_1": "23:59:59"}, "expires_at"),
            ({"expires_at_0": "0001-01-01", "expires_at_1": "00:00:00"}, "expires_at"),
            ({"expires_at_0": "infinity", "expires_at_1": "00:00:00"}, "expires_at"),
            ({"expires_at_0": "\uff12\uff10\uff13\uff10-01-01", "expires_at_1": "00:00:00"}, "expires_at"),
        ],
        ids=brief,
    )
    def test_is_refused_at_its_input(
        self, tenant: Tenant, operator: Client, changes: dict[str, str], name: str
    ) -> None:
        before = ApiKey.objects.count()
        sent = {"tenant": str(tenant.id), "name": "deploy", "scopes": "read"} | changes
        said = errors_of(operator.post(reverse("admin:tenants_apikey_add"), sent))
        assert list(said) == [name]
        assert ApiKey.objects.count() == before


class TestAList:
    """Text in a search or a filter, or changed in the address: no page, or one with nothing on it."""

    LISTS = sorted(page for page in PAGES if page.endswith("_changelist"))

    @pytest.mark.parametrize("page", LISTS)
    def test_takes_anything(self, world: World, operator: Client, page: str) -> None:
        model = operator.get(reverse(f"admin:{page}")).context["cl"]
        names = {
            name
            for spec in model.filter_specs
            for name in (
                getattr(spec, "parameter_name", None),
                *(spec.expected_parameters() or ()),
            )
            if name
        }
        for text in ("%00", "9" * 30, "x" * 10_000):
            for name in ("q", "p", *sorted(names)):
                answer = operator.get(f"{reverse(f'admin:{page}')}?{name}={text}")
                assert answer.status_code in (200, 302, 400), (name, text, answer.status_code)

    @pytest.mark.parametrize(
        "page", [*sorted(page for page in PAGES if page.endswith("_change")), "jobs_job_pause"]
    )
    def test_of_one_row_is_no_error_whatever_the_id(self, world: World, operator: Client, page: str) -> None:
        for text in ("\0", "x" * 5_000, "9" * 30):
            answer = operator.get(reverse(f"admin:{page}", args=[text]))
            assert answer.status_code < 500, (text, answer.status_code)


def test_every_row_has_its_cases() -> None:
    by_hand = {2: "of JSON texts, as definitions", 3: "test_is_refused_where_its_text_is_no_json"}
    assert {row for row, *_ in SENT} | by_hand.keys() == set(ROWS)

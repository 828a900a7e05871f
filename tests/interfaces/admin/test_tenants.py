"""A tenant's page in the console: an old form reverts nothing, and the page tells what its limits do."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.models import ActivityMinute
from tenants.actions import create_tenant
from tenants.models import OperatorBounds, Tenant
from tests import factories
from tests.interfaces.admin.world import press

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return create_tenant(slug="acme", name="Acme", max_in_flight=12, queues=["acme.*"])


@pytest.fixture
def colleague() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("colleague"))
    return client


class Page:
    """A tenant's form as one operator's browser holds it: it sends the shown values, unless they were typed over."""

    def __init__(self, client: Client, tenant: Tenant) -> None:
        self.client, self.url = client, reverse("admin:tenants_tenant_change", args=[tenant.pk])
        self._hold(client.get(self.url))

    def save(self, **typed: str) -> HttpResponse:
        answer = self.client.post(self.url, {k: v for k, v in (self.inputs | typed).items() if v is not None})
        if answer.status_code == 200:
            self._hold(answer)
        return answer

    def _hold(self, answer: Any) -> None:
        form = answer.context["adminform"].form
        values = {bound.html_name: bound.field.prepare_value(bound.value()) for bound in form}
        self.errors: dict[str, str] = {name: " ".join(texts) for name, texts in form.errors.items()}
        self.inputs: dict[str, Any] = {
            name: "on" if value is True else None if value is False else "" if value is None else str(value)
            for name, value in values.items()
        }


def limits(tenant: Tenant) -> tuple[str, int, int]:
    tenant.refresh_from_db()
    return (tenant.name, tenant.max_in_flight, tenant.weight)


class TestAnOldForm:
    def test_does_not_revert_a_quota_that_a_colleague_has_changed(
        self, tenant: Tenant, operator: Client, colleague: Client
    ) -> None:
        mine, theirs = Page(operator, tenant), Page(colleague, tenant)
        assert theirs.save(max_in_flight="50").status_code == 302
        assert mine.save(name="Acme Ltd").status_code == 200
        assert limits(tenant) == ("Acme", 50, 100)
        assert "nothing was saved" in mine.errors["__all__"]
        assert mine.errors["max_in_flight"] == (
            "Was 12, and is now 50. You did not change it, so it stays that."
        )
        assert (mine.inputs["name"], mine.inputs["max_in_flight"]) == ("Acme Ltd", "50")
        assert mine.save().status_code == 302
        assert limits(tenant) == ("Acme Ltd", 50, 100)

    def test_shows_both_values_of_what_two_have_changed_and_keeps_what_was_typed(
        self, tenant: Tenant, operator: Client, colleague: Client
    ) -> None:
        mine, theirs = Page(operator, tenant), Page(colleague, tenant)
        theirs.save(max_in_flight="50", queues="acme.*,mail")
        assert mine.save(max_in_flight="30", weight="7", require_if_match="on").status_code == 200
        assert limits(tenant) == ("Acme", 50, 100)
        assert mine.errors["max_in_flight"] == (
            "Was 12, and is now 50. If you save again, it becomes 30, as you typed."
        )
        assert "Was acme.*, and is now acme.*, mail." in mine.errors["queues"]
        assert (mine.inputs["max_in_flight"], mine.inputs["weight"]) == ("30", "7")
        assert (mine.inputs["require_if_match"], mine.inputs["queues"]) == ("on", "acme.*,mail")
        assert mine.save().status_code == 302
        assert limits(tenant) == ("Acme", 30, 7)
        assert tenant.queues == ["acme.*", "mail"]

    def test_is_refused_again_if_it_is_old_again(
        self, tenant: Tenant, operator: Client, colleague: Client
    ) -> None:
        mine = Page(operator, tenant)
        for number in ("50", "60"):
            Page(colleague, tenant).save(max_in_flight=number)
            assert mine.save(name="Acme Ltd").status_code == 200
        assert limits(tenant) == ("Acme", 60, 100)
        assert mine.save().status_code == 302
        assert limits(tenant) == ("Acme Ltd", 60, 100)

    def test_that_says_what_a_colleague_says_is_saved_at_the_second_try(
        self, tenant: Tenant, operator: Client, colleague: Client
    ) -> None:
        mine = Page(operator, tenant)
        Page(colleague, tenant).save(max_in_flight="50", circuit_breaker="on")
        assert mine.save(max_in_flight="50").status_code == 200
        assert "max_in_flight" not in mine.errors
        assert mine.errors["circuit_breaker"].startswith("Was off, and is now on.")
        assert mine.save().status_code == 302
        assert (limits(tenant)[1], tenant.circuit_breaker) == (50, True)

    @pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '"x"', "\0"])
    def test_whose_memory_makes_no_sense_is_refused(
        self, tenant: Tenant, operator: Client, text: str
    ) -> None:
        assert Page(operator, tenant).save(name="Acme Ltd", seen=text).status_code == 200
        assert limits(tenant) == ("Acme", 12, 100)


class TestABurst:
    def test_is_refused_without_a_rate(self, tenant: Tenant, operator: Client) -> None:
        mine = Page(operator, tenant)
        assert mine.save(rate_burst="5").status_code == 200
        assert "without rate_per_second" in mine.errors["rate_burst"]
        assert mine.save(rate_burst="5", rate_per_second="2").status_code == 302
        tenant.refresh_from_db()
        assert (tenant.rate_per_second, tenant.rate_burst) == (2, 5)


class TestStanding:
    def page(self, client: Client, tenant: Tenant) -> str:
        return client.get(reverse("admin:tenants_tenant_change", args=[tenant.pk])).content.decode()

    def test_says_what_is_late_and_why_beside_each_limit(self, tenant: Tenant, operator: Client) -> None:
        Tenant.objects.filter(pk=tenant.pk).update(max_in_flight=2)
        job = factories.make_job(tenant, name="mail", job_type="webhook")
        for state in ("queued", "running", "pending", "pending"):
            factories.make_trigger(job, state)
        text = self.page(operator, tenant)
        assert "2 of its firings are due, the oldest for" in text
        assert "2 of 2 in flight" in text
        assert "1 queued, 1 running · full" in text
        backlog = text[text.index('id="backlog"') :]
        assert re.search(r"webhook</td><td[^>]*>medium</td><td[^>]*>2</td>", backlog)

    def test_names_what_was_skipped_and_which_jobs_fail(self, tenant: Tenant, operator: Client) -> None:
        minute = factories.now().replace(second=0, microsecond=0)
        ActivityMinute.objects.create(
            minute=minute, tenant_id=tenant.pk, job_type="noop", skipped_overlap=7, retried=3
        )
        for name, failures in (("good", 0), ("bad", 1), ("worst", 3)):
            job = factories.make_job(tenant, name=name)
            for _ in range(failures):
                factories.make_attempt(factories.make_trigger(job, "dead"), "failed", error_code="http_5xx")
        text = self.page(operator, tenant)
        ended = text[text.index('id="ended"') :]
        assert re.search(r"skipped: overlap</th><td[^>]*>7<", ended)
        worst = text[text.index('id="worst"') :]
        rows = re.findall(r'<a class="text-link" href="[^"]+">(\w+)</a></td><td[^>]*>(\w+)</td>', worst)
        assert rows == [("worst", "http_5xx"), ("bad", "http_5xx")]

    @pytest.mark.parametrize(
        ("status", "said"),
        [
            ("suspended", "It is suspended"),
            ("frozen", "It is frozen"),
            ("active", "No due trigger of it waits"),
        ],
    )
    def test_says_what_its_status_does(
        self, tenant: Tenant, operator: Client, status: str, said: str
    ) -> None:
        Tenant.objects.filter(pk=tenant.pk).update(status=status)
        assert said in self.page(operator, tenant)

    def test_is_shown_to_those_alone_who_may_see_triggers(
        self, tenant: Tenant, staff: Callable[..., Client]
    ) -> None:
        assert 'id="standing"' not in self.page(staff("view_tenant"), tenant)
        text = self.page(staff("view_tenant", "view_trigger"), tenant)
        assert 'id="standing"' in text
        assert "Dead letters</a>" in text
        assert "API keys</a>" not in text[text.index('id="standing"') :]

    def test_asks_as_much_for_many_rows_as_for_few(self, tenant: Tenant, operator: Client) -> None:
        job = factories.make_job(tenant)
        factories.make_attempt(factories.make_trigger(job, "dead"), "failed", error_code="http_5xx")
        factories.make_trigger(job)
        url = reverse("admin:tenants_tenant_change", args=[tenant.pk])
        operator.get(url)
        few = queries(operator, url)
        for number in range(20):
            other = factories.make_job(tenant, priority=number % 4)
            factories.make_attempt(factories.make_trigger(other, "dead"), "failed", error_code="http_5xx")
            factories.make_triggers(other, 3)
        many = queries(operator, url)
        assert len(many) <= len(few)
        assert len(many) <= 25 + 6  # savepoints, which are no queries outside a test's transaction


class TestTheList:
    def test_shows_what_each_tenant_has_in_flight_due_and_dead(
        self, tenant: Tenant, operator: Client
    ) -> None:
        job = factories.make_job(tenant)
        for state in ("queued", "running", "pending", "dead", "dead", "dead"):
            factories.make_trigger(job, state)
        factories.make_tenant(slug="zulu")
        text = operator.get(reverse("admin:tenants_tenant_changelist")).content.decode()
        rows = {
            row.slug: row.standing
            for row in operator.get(reverse("admin:tenants_tenant_changelist")).context["cl"].result_list
        }
        assert (rows["acme"].in_flight, rows["acme"].due, rows["acme"].dead) == (2, 1, 3)
        assert rows["acme"].oldest_seconds >= 1
        assert (rows["zulu"].due, rows["zulu"].oldest_seconds) == (0, None)
        assert "2 of 12" in text

    def test_asks_as_much_for_many_tenants_as_for_few(self, tenant: Tenant, operator: Client) -> None:
        url = reverse("admin:tenants_tenant_changelist")
        operator.get(url)
        few = queries(operator, url)
        for _ in range(30):
            factories.make_trigger(factories.make_job())
        assert len(queries(operator, url)) == len(few)

    def test_is_never_shown_all_at_once(self, tenant: Tenant, operator: Client) -> None:
        Tenant.objects.bulk_create(Tenant(slug=f"tenant-{n}", name=f"tenant-{n}") for n in range(60))
        url = reverse("admin:tenants_tenant_changelist")
        assert len(operator.get(url, {"all": ""}).context["cl"].result_list) == 50
        assert "?all=" not in operator.get(url).content.decode()

    def test_has_no_figures_for_those_who_may_not_see_triggers(
        self, tenant: Tenant, staff: Callable[..., Client]
    ) -> None:
        text = staff("view_tenant").get(reverse("admin:tenants_tenant_changelist")).content.decode()
        assert "acme" in text
        assert "2 of 12" not in text
        assert "0 of 12" not in text

    def test_of_a_bound_operator_has_their_tenants_alone(
        self, tenant: Tenant, staff: Callable[..., Client]
    ) -> None:
        other = factories.make_tenant(slug="other")
        client = staff("view_tenant", "view_trigger")
        bounds = OperatorBounds.objects.create(operator=User.objects.latest("pk"))
        bounds.tenants.add(tenant)
        rows = client.get(reverse("admin:tenants_tenant_changelist")).context["cl"].result_list
        assert [row.slug for row in rows] == ["acme"]
        assert client.get(reverse("admin:tenants_tenant_change", args=[other.pk])).status_code != 200


class TestStatus:
    @pytest.mark.parametrize(
        ("before", "button", "after"),
        [
            ("active", "suspend", "suspended"),
            ("active", "freeze", "frozen"),
            ("frozen", "activate", "active"),
            ("suspended", "activate", "active"),
        ],
    )
    def test_is_changed_by_a_button_that_asks(
        self, tenant: Tenant, operator: Client, before: str, button: str, after: str
    ) -> None:
        Tenant.objects.filter(pk=tenant.pk).update(status=before)
        factories.make_job(tenant)
        asked = operator.get(reverse(f"admin:tenants_tenant_{button}", args=[tenant.pk])).content.decode()
        assert "<b>acme</b>: 1 living job, 0 in flight, 0 due." in asked
        assert Tenant.objects.get().status == before
        press(operator, f"tenants_tenant_{button}", tenant)
        assert Tenant.objects.get().status == after

    def test_offers_the_buttons_that_change_something(self, tenant: Tenant, operator: Client) -> None:
        text = operator.get(reverse("admin:tenants_tenant_change", args=[tenant.pk])).content.decode()
        assert reverse("admin:tenants_tenant_suspend", args=[tenant.pk]) in text
        assert reverse("admin:tenants_tenant_activate", args=[tenant.pk]) not in text


class TestAQuota:
    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            (
                {"max_in_flight": "50"},
                "max_in_flight: 12 before, 50 now. Triggers that waited for it go on at once.",
            ),
            ({"max_in_flight": "5"}, "Triggers in flight go on"),
            ({"max_jobs": "5"}, "None is removed"),
            ({"max_backfill": "5"}, "existing objects stay"),
            (
                {"rate_per_second": "5"},
                "rate_per_second: none before, 5 now. Triggers in flight go on",
            ),
            ({"weight": "5"}, "Its share of the starts changes"),
        ],
    )
    def test_that_changes_says_what_it_does(
        self, tenant: Tenant, operator: Client, typed: dict[str, str], said: str
    ) -> None:
        answer = Page(operator, tenant).save(**typed)
        assert any(said in str(message) for message in get_messages(answer.wsgi_request))


def queries(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return [query["sql"] for query in captured]

"""A tenant's page in the console: an old form reverts nothing, and what its limits do is told."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tenants.actions import create_tenant
from tenants.models import Tenant

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
    """A tenant's form as one operator's browser holds it: what was shown is sent, unless it was typed over."""

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
            "Was 12, and is 50 by now. You left it alone, so it stays that."
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
            "Was 12, and is 50 by now. Saved again, it becomes 30, as you typed."
        )
        assert "Was acme.*, and is acme.*, mail by now." in mine.errors["queues"]
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
        assert mine.errors["circuit_breaker"].startswith("Was off, and is on by now.")
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

"""Charts of the console: figures of tallies and samples over time, each within the operator's reach."""

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.core.activity import ALL_TENANTS
from jobs.models import MetricTenant
from jobs.store.insight.outcomes import SPANS
from jobs.store.insight.series import samples
from tenants.models import OperatorBounds
from tests import factories
from tests.activity_records import record
from tests.interfaces.admin.world import World

pytestmark = pytest.mark.django_db
CHARTS, FIGURES = (reverse(f"console_{name}") for name in ("charts", "charts_figures"))


def charts(client: Client, query: str = "", *, page: str = FIGURES) -> dict[str, dict[str, Any]]:
    """The charts of an answer by their keys, with the data to draw; empty where there is nothing to draw."""
    answer = client.get(f"{page}?{query}")
    assert answer.status_code == 200, answer
    found = {}
    for part in answer.content.decode().split('aria-labelledby="chart-')[1:]:
        data = re.search(r'data-chart="([^"]*)"', part)
        found[part.partition('"')[0]] = json.loads(unescape(data[1])) if data else {}
    return found


def sums(chart: dict[str, Any]) -> dict[str, float]:
    return {one["label"]: sum(value or 0 for value in one["values"]) for one in chart.get("series", [])}


@pytest.fixture
def busy(world: World) -> World:
    """A minute of the world's tenant and of another one."""
    world.other = factories.make_tenant(slug="other")
    for tenant, times in ((world.tenant, 1), (world.other, 10)):
        MetricTenant.objects.create(tenant_id=tenant.pk, named_at=factories.now())
        counts = {"ended_succeeded": 5, "retried": 2, "skipped_overlap": 3, "buried_exhausted": 1, "ended_failed": 3,
                  "ended_lost": 1, "lag_10": 9, "lag_us": 18_000_000}  # fmt: skip
        record({(tenant.pk, "webhook"): {kind: times * count for kind, count in counts.items()}})
    return world


def bind(client_of: Callable[..., Client], *tenants: Any) -> Client:
    client = client_of("view_trigger")
    OperatorBounds.objects.create(operator=User.objects.latest("pk")).tenants.set(tenants)
    return client


class TestCharts:
    @pytest.mark.parametrize("span", SPANS)
    def test_are_of_all_tenants_without_a_sum_over_each(
        self, busy: World, operator: Client, span: str
    ) -> None:
        found = charts(operator, f"span={span}")
        assert sums(found["outcomes"]) == {
            "succeeded": 55, "retried": 22, "dead": 11, "skipped": 33, "cancelled": 0,
        }  # fmt: skip
        assert sums(found["skips"]) == {"overlap": 33}
        assert sums(found["deaths"]) == {"dead: exhausted": 11, "lease expired": 11}
        assert found["types"]["labels"] == ["webhook"]
        assert sums(found["tenants"]) == {"retried": 22}
        assert found["tenants"]["labels"] == ["other", busy.tenant.slug]
        count = len(found["outcomes"]["labels"])
        assert all(len(one["values"]) == count for one in found["outcomes"]["series"])

    def test_show_percentiles_of_the_lag_with_the_objective_as_a_line(
        self, busy: World, operator: Client
    ) -> None:
        lag = charts(operator)["lag"]
        by_name = {one["label"]: [value for value in one["values"] if value] for one in lag["series"]}
        assert set(by_name["objective"]) == {10}
        assert len(by_name["objective"]) == len(lag["labels"])
        assert 1 < by_name["p50"][0] < by_name["p99"][0] <= 2.5

    def test_of_one_tenant_or_type_are_its_own(self, busy: World, operator: Client) -> None:
        assert sums(charts(operator, f"tenant={busy.tenant.slug}")["outcomes"])["succeeded"] == 5
        assert sums(charts(operator, "type=webhook")["outcomes"])["succeeded"] == 55
        assert charts(operator, "type=noop")["outcomes"] == {}
        assert "types" not in charts(operator, "type=webhook")

    def test_show_queues_and_slots_over_time(self, busy: World, operator: Client) -> None:
        factories.make_trigger(busy.job, "queued")
        factories.make_trigger(busy.job, "running")
        samples.take()
        found = charts(operator, "span=1h")
        assert sums(found["depth"])["queued"] == 1
        assert sums(found["pool"])["running"] == 1
        assert None in found["depth"]["series"][0]["values"]
        assert "depth" not in charts(operator, f"tenant={busy.tenant.slug}")

    @pytest.mark.parametrize("span", SPANS)
    def test_of_one_job_come_from_the_ledger(self, world: World, operator: Client, span: str) -> None:
        found = charts(operator, f"job={world.job.pk}&span={span}")
        assert list(found) == ["outcomes", "lag", "duration"]
        assert sums(found["outcomes"])["dead"] == 1

    def test_have_their_figures_as_a_table_too(self, busy: World, operator: Client) -> None:
        text = operator.get(CHARTS).content.decode()
        assert re.search(r'<th scope="row"[^>]*>\d\d:\d0</th><td class="pr-4">55</td>', text)
        assert "<details" in text

    def test_of_an_unknown_span_are_of_the_usual_one(self, busy: World, operator: Client) -> None:
        assert charts(operator, "span=x").keys() == charts(operator).keys()

    @pytest.mark.parametrize("query", ["tenant=none", "job=x", "job=00000000-0000-0000-0000-000000000000"])
    def test_of_what_there_is_not_are_not_found(self, busy: World, operator: Client, query: str) -> None:
        assert operator.get(f"{CHARTS}?{query}").status_code == 404

    def test_are_for_those_who_may_see_triggers(self, world: World, staff: Callable[..., Client]) -> None:
        assert staff("view_job").get(CHARTS).status_code == 403
        assert staff("view_trigger").get(CHARTS).status_code == 200
        assert Client().get(CHARTS).status_code == 302

    def test_are_linked_from_tenants_types_and_the_sidebar(self, busy: World, operator: Client) -> None:
        assert CHARTS in operator.get(reverse("admin:index")).content.decode()
        for page, asks in (
            ("tenants_tenant_change", f"tenant={busy.tenant.slug}"),
            ("jobs_queue_change", f"type={busy.queue.job_type}"),
        ):
            assert f"{FIGURES}?{asks}" in operator.get(busy.url(page)).content.decode()

    def test_take_no_more_statements_than_a_page_may(self, busy: World, operator: Client) -> None:
        samples.take()
        operator.get(CHARTS)
        with CaptureQueriesContext(connection) as captured:
            operator.get(CHARTS)
        assert len(captured) <= 25


class TestReach:
    def test_holds_charts_to_the_operators_tenants(self, busy: World, staff: Callable[..., Client]) -> None:
        samples.take()
        client = bind(staff, busy.tenant)
        found = charts(client, page=CHARTS)
        assert sums(found["outcomes"])["succeeded"] == 5
        assert found["tenants"]["labels"] == [busy.tenant.slug]
        assert "depth" not in found
        assert (
            "other"
            not in client.get(CHARTS).content.decode().partition('id="scope"')[2].partition("</form>")[0]
        )

    def test_hides_other_tenants_and_their_jobs(self, busy: World, staff: Callable[..., Client]) -> None:
        client = bind(staff, busy.other)
        assert client.get(f"{FIGURES}?tenant={busy.tenant.slug}").status_code == 404
        assert client.get(f"{FIGURES}?job={busy.job.pk}").status_code == 404
        assert sums(charts(client, "tenant=other")["outcomes"])["succeeded"] == 50

    def test_of_no_tenant_shows_nothing(self, busy: World, staff: Callable[..., Client]) -> None:
        assert all(not chart for chart in charts(bind(staff)).values())


def test_all_tenants_are_no_tenant() -> None:
    assert ALL_TENANTS < 0

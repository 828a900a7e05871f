"""The next 24 hours: exact for few jobs, as counted by the leader for many jobs, and held to reach."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.engine import outlook
from jobs.engine.outlook import Outlooks
from jobs.models import ActivityMinute, KeptForecast
from jobs.store.insight import forecast
from tenants.models import OperatorBounds, Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, now

pytestmark = pytest.mark.django_db

URL = "/admin/upcoming/"


def page(client: Client, query: str = "") -> dict[str, Any]:
    response = client.get(URL + query)
    assert response.status_code == 200
    return dict(response.context_data)  # type: ignore[attr-defined]


def counts(told: dict[str, Any]) -> int:
    return sum(cell.count for column in told["columns"] for cell in column["cells"] if cell)


def hourly(tenant: Tenant | None = None, **columns: Any) -> Any:
    """A job that fires at every full hour: 24 times a day."""
    cron = {"schedule_type": "cron", "cron_expression": "0 * * * *", "interval": None}
    return factories.make_job(tenant, **cron, **({"next_fire_at": now() + HOUR} | columns))


def walk() -> int:
    """Let the leader make its forecast. Returns in how many slices."""
    outlooks, slices = Outlooks(), 1
    while outlooks.step():
        slices += 1
    return slices


class TestCountedNow:
    def test_is_exact_for_a_tenant(self, operator: Client) -> None:
        job = hourly()
        hourly(job.tenant)
        hourly()
        hourly(job.tenant, status="paused")
        told = page(operator, f"?tenant={job.tenant_id}")
        # Ninety-six quarter hours from the present one on hold 24 full hours, and the rest of the present quarter.
        assert told["exact"]
        assert counts(told) in (46, 48)
        assert told["jobs"] == 2
        assert len(told["upcoming"]) == 2

    def test_is_exact_for_all_where_there_are_few(self, operator: Client) -> None:
        for _ in range(3):
            hourly()
        told = page(operator)
        assert told["exact"]
        assert counts(told) in (69, 72)

    def test_lists_jobs_by_when_they_fire_next(self, operator: Client) -> None:
        later, sooner = hourly(next_fire_at=now() + 2 * HOUR), hourly(next_fire_at=now() + MINUTE)
        assert [row["name"] for row in page(operator)["upcoming"]] == [sooner.name, later.name]

    def test_names_a_herd_and_how_long_it_takes(self, operator: Client) -> None:
        tenant = factories.make_tenant()
        for _ in range(forecast.MINUTES):
            hourly(tenant)
        minute = now().replace(second=0, microsecond=0) - 3 * MINUTE
        ActivityMinute.objects.create(minute=minute, tenant_id=tenant.id, job_type="noop", started=60)
        told = page(operator, f"?tenant={tenant.id}")
        assert told["pace"].fastest == 1
        assert told["herds"][0]["count"] == "60"
        assert "1 min of work at that pace" in told["herds"][0]["takes"]
        text = operator.get(f"{URL}?tenant={tenant.id}").content.decode()
        assert "Spread them by jitter?" in text


class TestKept:
    @pytest.fixture(autouse=True)
    def many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pretend that each tenant has too many jobs to count them at once."""
        monkeypatch.setattr(forecast, "MAX_COUNTED", 1)
        monkeypatch.setattr(outlook, "JOBS", 2)
        monkeypatch.setattr(outlook, "TENANTS", 1)

    def test_is_what_the_leader_counted_in_slices(self, operator: Client) -> None:
        tenants = [factories.make_tenant() for _ in range(2)]
        for tenant in tenants:
            for _ in range(2):
                hourly(tenant)
        told = page(operator)
        assert told["columns"] == []
        assert b"There is no forecast yet" in operator.get(URL).content
        assert walk() == 3 + 2 + 1
        told = page(operator)
        assert not told["exact"]
        assert counts(told) in (92, 96)
        assert told["jobs"] == 4
        assert {row["slug"] for row in told["tenants"]} == {tenant.slug for tenant in tenants}
        assert counts(page(operator, f"?tenant={tenants[0].id}")) in (46, 48)

    def test_forgets_tenants_without_jobs(self) -> None:
        job = hourly()
        hourly()
        walk()
        assert KeptForecast.objects.count() == 3
        job.delete()
        walk()
        assert KeptForecast.objects.count() == 2
        assert KeptForecast.objects.get(tenant_id=forecast.ALL).jobs == 1

    def test_waits_while_dispatch_is_busy(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            assert not Outlooks(busy=lambda: True).step()

    def test_begins_anew_after_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(3):
            hourly()
        outlooks = Outlooks()
        assert outlooks.step()
        with monkeypatch.context() as broken:
            broken.setattr(forecast, "jobs_after", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                outlooks.step()
        while outlooks.step():
            pass
        assert KeptForecast.objects.get(tenant_id=forecast.ALL).jobs == 3

    def test_is_still_told_of_when_it_has_grown_old(self, operator: Client) -> None:
        hourly(hourly().tenant)
        walk()
        KeptForecast.objects.update(
            since=KeptForecast.objects.get(tenant_id=0).since - HOUR, made_at=now() - HOUR
        )
        told = page(operator)
        assert len([cell for column in told["columns"] for cell in column["cells"] if cell]) == 96


class TestAccess:
    def test_is_for_whoever_may_view_jobs(self, staff: Callable[..., Client]) -> None:
        assert staff("view_job").get(URL).status_code == 200
        assert staff("view_trigger").get(URL).status_code == 403
        assert Client().get(URL).status_code == 302

    @pytest.mark.parametrize("kept", [False, True])
    def test_is_held_to_reach(
        self, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, kept: bool
    ) -> None:
        mine, others = hourly(), [hourly() for _ in range(3)]
        if kept:
            hourly(mine.tenant)
            monkeypatch.setattr(forecast, "MAX_COUNTED", 1)
        walk()
        client = staff("view_job")
        bounds = OperatorBounds.objects.create(operator=User.objects.get(username__startswith="staff"))
        bounds.tenants.set([mine.tenant])
        told, text = page(client), client.get(URL).content.decode()
        assert told["exact"] is not kept
        assert told["jobs"] == (2 if kept else 1)
        for other in others:
            assert other.name not in text
            assert other.tenant.slug not in text
            assert client.get(f"{URL}?tenant={other.tenant_id}").status_code == 404
        assert client.get(f"{URL}?tenant={mine.tenant_id}").status_code == 200

    @pytest.mark.parametrize("tenant", ["0", "-1", "x", "9" * 30, "%00", "x" * 5_000, "1e3", "\u0661"])
    def test_takes_anything(self, operator: Client, tenant: str) -> None:
        assert operator.get(f"{URL}?tenant={tenant}").status_code in (400, 404)

    def test_asks_as_much_for_many_jobs_as_for_few(self, operator: Client) -> None:
        def asked() -> int:
            with CaptureQueriesContext(connection) as captured:
                page(operator)
            return len(captured)

        hourly()
        few = asked()
        for _ in range(20):
            hourly()
        assert asked() <= few <= 25


def test_what_is_ahead_of_a_job_is_not_what_lies_behind(operator: Client) -> None:
    hourly(ends_at=now() + timedelta(minutes=1), next_fire_at=None)
    assert counts(page(operator)) == 0

"""Errors outside of any field: unknown paths, defects, a database or a broker that is away."""

import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.db import OperationalError, connection
from django.test import Client

from jobs import broker, limits
from jobs.store import db
from jobs.telemetry import Outage
from jobs.telemetry.release import version
from tenants.models import ApiKey, Tenant
from tests.interfaces.api.caller import Caller, noop_job


@pytest.fixture
def database_away(transactional_db: None) -> Iterator[None]:
    """The connection is gone, and a new one finds no server at that port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        nowhere = {"HOST": "127.0.0.1", "PORT": str(listener.getsockname()[1])}
        connection.close()
        with patch.dict(connection.settings_dict, nowhere):
            yield
            connection.close()


def assert_problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem.keys() >= {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == status
    return problem


class TestUnknownPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/api",
            "/api/",
            "/api/v1",
            "/api/v1/",
            "/api/v2/jobs",
            "/api/v1/jobs/",
            "/api/v1/jobs/5",
            "/api/v1/jobs/%00",
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    def test_are_problems_too(self, owner: Caller, method: str, path: str) -> None:
        assert_problem(owner.call(method, path), 404)

    def test_elsewhere_are_pages(self, owner: Caller) -> None:
        assert owner.client.get("/nowhere")["Content-Type"].startswith("text/html")

    def test_the_root_leads_to_the_admin(self, owner: Caller) -> None:
        assert owner.client.get("/")["Location"] == "/admin/"


class TestDefects:
    def test_are_problems_without_particulars(self, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(**_: Any) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr("jobs.actions.jobs.create_job", fail)
        response = owner.post("/jobs", noop_job())
        assert_problem(response, 500)
        assert "secret" not in response.content.decode()

    def test_a_strange_host_is_a_problem(self, owner: Caller, settings: Any) -> None:
        settings.ALLOWED_HOSTS = ["carillon.example"]
        assert_problem(owner.get("/jobs?page_size=1", Host="evil.example"), 400)

    def test_a_wish_for_html_is_refused_in_our_shape(self, owner: Caller) -> None:
        assert_problem(owner.get("/jobs", Accept="text/html"), 406)


class TestDatabaseAway:
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "/jobs", None),
            ("POST", "/jobs", noop_job()),
            ("POST", "/jobs/018f0000-0000-7000-8000-000000000000/pause", None),
            ("GET", "/tenant", None),
        ],
    )
    def test_is_a_503_that_says_when_to_try_again(
        self, database_away: None, method: str, path: str, body: Any
    ) -> None:
        response = Caller(token="ck_aaaaaaaaaaaa_" + "x" * 43).call(method, path, body)
        assert_problem(response, 503)
        assert response["Retry-After"] == "5"
        assert "127.0.0.1" not in response.content.decode()

    def test_is_told_of_as_one_outage_not_for_each_call(
        self, database_away: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        stranger = Caller(token="ck_aaaaaaaaaaaa_" + "x" * 43)
        for _ in range(10):
            assert stranger.get("/jobs").status_code == 503
            assert stranger.client.get("/readyz").status_code == 503
        about = [record for record in caplog.records if record.name in ("carillon", "django.request")]
        assert [record.msg["event"] for record in about] == ["database away"]

    def test_is_over_with_the_next_call_that_is_answered(
        self, owner: Caller, caplog: pytest.LogCaptureFixture
    ) -> None:
        db.note_away(OperationalError("gone"), what="api")
        assert owner.client.get("/readyz").json()["database"] == "ok"
        events = [record.msg["event"] for record in caplog.records if record.name == "carillon"]
        assert events == ["database away", "database away: over"]

    def test_is_a_503_on_a_standby_that_is_not_promoted_yet(self, owner: Caller) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL transaction_read_only = on")
        assert_problem(owner.post("/jobs", noop_job()), 503)

    def test_leaves_the_process_alive_but_not_ready(self, database_away: None) -> None:
        client = Caller().client
        assert client.get("/livez").json() == {"status": "ok"}
        response = client.get("/readyz")
        assert response.status_code == 503
        report = response.json()
        assert (report["database"], report["schema"], report["version"]) == ("away", None, version())


class TestBrokerAway:
    def test_is_told_of_as_one_outage(
        self, owner: Caller, settings: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(broker, "_outage", Outage("broker away"))
        there = settings.CELERY_BROKER_URL
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        for _ in range(3):
            owner.client.get("/readyz")
        settings.CELERY_BROKER_URL = there
        owner.client.get("/readyz")
        events = [record.msg["event"] for record in caplog.records if record.name == "carillon"]
        assert events == ["broker away", "broker away: over"]

    def test_degrades_readiness_and_nothing_else(self, owner: Caller, settings: Any) -> None:
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
        response = owner.client.get("/readyz")
        assert response.status_code == 200
        offset = response.json()["clock_offset_seconds"]
        assert response.json() == {
            "status": "degraded",
            "version": version(),
            "database": "ok",
            "schema": "ok",
            "broker": "away",
            "rates": "ok",
            "clock_offset_seconds": offset,
        }
        assert owner.post("/jobs", noop_job()).status_code == 201

    def test_that_is_back_makes_all_well(self, owner: Caller) -> None:
        report = owner.client.get("/readyz").json()
        assert abs(report.pop("clock_offset_seconds")) < 1
        assert (report.pop("version"), report.pop("schema")) == (version(), "ok")
        assert report == {"status": "ok", "database": "ok", "broker": "ok", "rates": "ok"}


class TestRabbitMQWithoutRedis:
    @pytest.fixture(autouse=True)
    def _rabbitmq(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.REDIS_URL, settings.CELERY_BROKER_URL = "", "amqp://rabbit//"
        monkeypatch.setattr("jobs.api.views.health.broker_answers", lambda: True)

    def test_counts_rates_and_says_what_goes_where(self, owner: Caller, settings: Any) -> None:
        Tenant.objects.filter(id=owner.tenant.id).update(rate_per_second=5)
        report = owner.client.get("/readyz").json()
        assert (report["status"], report["rates"]) == ("ok", "ok")
        assert report["carriers"] == {"messages": "rabbitmq", "rates": "postgres", "wake_ups": "postgres"}
        assert [text.partition(":")[0] for text in report["differences"]] == ["CARILLON_TENANT_QUEUE_BYTES"]

    def test_says_which_settings_have_no_effect(
        self, settings: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": 1})
        broker.tell_carriers()
        assert "broker is RabbitMQ" in caplog.text
        assert "CARILLON_RESERVED_SLOTS" in caplog.text
        assert "CARILLON_TENANT_QUEUE_BYTES" in caplog.text

    def test_says_nothing_beside_redis(self, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
        settings.CELERY_BROKER_URL = settings.REDIS_URL = "redis://redis/0"
        broker.tell_carriers()
        assert caplog.text == ""


class TestRatesAlone:
    """Redis, which counts rates, is not there."""

    @pytest.fixture(autouse=True)
    def _no_redis(self, settings: Any) -> None:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"

    def limit_a_tenant(self, owner: Caller, settings: Any) -> None:
        Tenant.objects.filter(id=owner.tenant.id).update(rate_per_second=5)

    def limit_a_key(self, owner: Caller, settings: Any) -> None:
        ApiKey.objects.filter(tenant=owner.tenant).update(rate_per_second=5)

    def limit_a_host(self, owner: Caller, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"target_rates": {"api.example": 5.0}})

    @pytest.mark.parametrize("limit", [limit_a_tenant, limit_a_key, limit_a_host])
    def test_degrade_readiness_where_there_are_limits(self, owner: Caller, settings: Any, limit: Any) -> None:
        limit(self, owner, settings)
        response = owner.client.get("/readyz")
        assert response.status_code == 200
        assert response.json()["status"] == "degraded"
        assert response.json()["rates"] == "away"
        assert "REDIS_URL" in response.json()["reason"]

    def test_matter_to_nobody_where_there_are_none(self, owner: Caller) -> None:
        report = owner.client.get("/readyz").json()
        assert (report["status"], report["rates"]) == ("ok", "ok")

    def test_are_told_of_at_start(self, caplog: pytest.LogCaptureFixture) -> None:
        assert not limits.counted_together(say=True)
        assert "REDIS_URL" in caplog.text


class TestHealthBesideTheProxy:
    @pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
    def test_is_told_without_tls(self, owner: Caller, settings: Any, path: str) -> None:
        """A node or Prometheus calls without TLS: nothing listens for them at the port of a redirect."""
        settings.SECURE_SSL_REDIRECT = True
        assert Client().get(path).status_code == 200
        assert Client().get("/admin/").status_code == 301


class TestMethods:
    @pytest.mark.parametrize("path", ["/livez", "/readyz"])
    def test_health_needs_no_key(self, db: None, path: str) -> None:
        assert Caller().client.get(path).status_code == 200

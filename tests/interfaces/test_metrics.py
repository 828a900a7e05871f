"""``/metrics``: what it tells, to whom, and that it costs the database little."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from jobs.api import metrics
from jobs.store.insight import clocks, workers
from tests import factories
from tests.factories import MINUTE, make_attempt, make_job, make_tenant, make_trigger, take_lease

pytestmark = pytest.mark.django_db
TOKEN = "a token of sixteen or more".replace(" ", "-")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(metrics, "broker_answers", lambda: True)
    metrics.kept.forget()
    yield
    metrics.kept.forget()


def samples(client: Client) -> dict[tuple[str, ...], float]:
    """By name and the values of the labels, which come in their alphabet's order."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name.removeprefix("carillon_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


class TestWhatItTells:
    def test_is_what_is_queued_how_late_it_is_who_leads_and_what_came_of_it(self, client: Client) -> None:
        job = make_job()
        make_trigger(job, "queued")
        trigger = make_trigger(job, "running", due_at=factories.now() - MINUTE)
        make_attempt(trigger, "started")
        make_attempt(make_trigger(job, "dead"), "failed")
        make_trigger(job, due_at=factories.now() - MINUTE)
        make_trigger(make_job(job_type="webhook"), due_at=factories.now() + MINUTE)
        make_trigger(make_job(make_tenant(status="suspended"), job_type="message"))
        take_lease(holder="beat-1", duration=10 * MINUTE)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        twin = workers.own_name("w2", "8-b")
        workers.announce(name=twin, queues=[], concurrency=4, process="8-b")
        drift = clocks.Drift(
            name="beat@a:1", clock=lambda: factories.now().timestamp() - 300, rate_limit_bypassed=lambda: 7
        )
        drift.measure_if_due()
        drift.measure_if_due()
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO jobs_queue VALUES ('noop', 256, 12.5, 70, 0, now())")
        found = samples(client)
        assert found["up",] == found["broker_up",] == 1
        assert found["in_flight_triggers", "noop", "queued"] == 1
        assert found["in_flight_triggers", "noop", "running"] == 1
        assert 60 <= found["lag_seconds", "noop"] < 600
        assert found["lag_seconds", "webhook"] == 0
        assert ("lag_seconds", "message") not in found
        assert found["queue_window", "noop"] == 256
        assert found["queue_claims_per_second", "noop"] == 12.5
        assert found["dispatched_total", "noop"] == 70
        assert found["lease_term", "beat-1", "leader"] == 1
        assert 0 < found["lease_seconds_left", "beat-1", "leader"] <= 600
        assert found["workers", "jobs.noop"] == 1
        assert found["worker_names_shared",] == 1
        assert -330 < found["clock_offset_seconds", "beat@a:1"] < -270
        assert found["rate_limit_bypassed_total", "beat@a:1"] == 7
        assert found["attempts_last_minute", "started"] == found["attempts_last_minute", "failed"] == 1
        assert found["materialized_total",] >= 0
        assert found["duplicates_prevented_total",] >= 0

    def test_is_asked_of_the_database_once_in_a_few_seconds(self, client: Client) -> None:
        with CaptureQueriesContext(connection) as first:
            samples(client)
        with CaptureQueriesContext(connection) as second:
            samples(client)
        assert (0 < len(first) < 12, len(second)) == (True, 0)

    def test_is_that_the_database_is_away(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def away() -> Any:
            raise OperationalError("the server is gone")

        monkeypatch.setattr(metrics, "figures", away)
        monkeypatch.setattr(metrics, "broker_answers", lambda: False)
        assert samples(client) == {("up",): 0, ("broker_up",): 0}

    def test_is_that_a_frozen_database_is_away(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        # It takes connections, as the kernel does for a process that stands still, and never answers.
        with socket.create_server(("127.0.0.1", 0)) as frozen:
            there = {"host": "127.0.0.1", "port": frozen.getsockname()[1], "dbname": "any", "user": "any"}
            monkeypatch.setattr(connection, "get_connection_params", lambda: there)
            assert samples(client) == {("up",): 0, ("broker_up",): 1}

    def test_is_so_to_others_while_one_waits_for_a_database_that_froze(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.05)
        with metrics.kept._lock:
            assert samples(client) == {("up",): 0, ("broker_up",): 1}


class TestWhoMayReadIt:
    @pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
    def test_is_a_caller_from_this_machine(self, client: Client, address: str) -> None:
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 200

    @pytest.mark.parametrize(
        ("address", "headers"),
        [
            ("192.0.2.1", {}),
            ("10.0.0.1", {}),
            ("", {}),
            ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
            ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
            ("127.0.0.1", {"X-Real-IP": "192.0.2.1"}),
            ("127.0.0.1", {"X-Forwarded-For": ""}),
            ("127.0.0.1", {"CF-Connecting-IP": "127.0.0.1"}),
            ("127.0.0.1", {"True-Client-IP": "127.0.0.1"}),
            ("127.0.0.1", {"X-Client-IP": "127.0.0.1"}),
            ("127.0.0.1", {"X-Request-ID": "of whatever stands before it"}),
        ],
    )
    def test_is_nobody_from_elsewhere_nor_behind_a_proxy(
        self, client: Client, address: str, headers: dict[str, str]
    ) -> None:
        answer = client.get("/metrics", REMOTE_ADDR=address, headers=headers)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
        assert b"carillon_" not in answer.content

    @pytest.mark.parametrize(
        ("given", "status"),
        [(f"Bearer {TOKEN}", 200), (f"Bearer {TOKEN}x", 401), ("Bearer ", 401), (TOKEN, 401), ("\xff", 401)],
    )
    def test_is_whoever_has_the_token_from_wherever(
        self, client: Client, settings: Any, given: str, status: int
    ) -> None:
        settings.METRICS_TOKEN = TOKEN
        for address in ("192.0.2.1", "127.0.0.1"):
            answer = client.get("/metrics", REMOTE_ADDR=address, headers={"Authorization": given})
            assert answer.status_code == status

    def test_is_nobody_else_where_there_is_a_token(self, client: Client, settings: Any) -> None:
        settings.METRICS_TOKEN = TOKEN
        assert client.get("/metrics").status_code == 401

    def test_is_nobody_by_an_empty_token(self, client: Client, settings: Any) -> None:
        settings.METRICS_TOKEN = ""
        for given in ("Bearer ", "Bearer"):
            answer = client.get("/metrics", REMOTE_ADDR="192.0.2.1", headers={"Authorization": given})
            assert answer.status_code == 401

    @pytest.mark.parametrize("method", ["post", "put", "delete"])
    def test_is_nobody_who_would_write(self, client: Client, method: str) -> None:
        assert getattr(client, method)("/metrics").status_code == 405

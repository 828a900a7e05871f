"""``/metrics``: its figures of the present, which cost the database little."""

import socket
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.actions.workflows.runs import pause_run
from jobs.api import metrics
from jobs.models import CatchUp, WorkflowRun
from jobs.models.fields import first_id_since
from jobs.store.insight import clocks, workers
from jobs.store.insight import metrics as figures
from tests import factories
from tests.factories import MINUTE, make_job, make_tenant, make_trigger, take_lease
from tests.interfaces.metrics.samples import samples
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db


class TestWhatItTells:
    def test_is_what_is_queued_how_late_it_is_who_leads_and_what_came_of_it(self, client: Client) -> None:
        job = make_job()
        make_trigger(job, "queued")
        make_trigger(job, "running", due_at=factories.now() - MINUTE)
        make_trigger(job, "running", lease_expires_at=factories.now() - MINUTE)
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
        assert found["in_flight_triggers", "noop", "running"] == 2
        assert found["expired_leases", "noop"] == 1
        assert found["due_triggers", "noop"] == 1
        assert 60 <= found["lag_seconds", "noop"] < 600
        assert found["due_triggers", "webhook"] == found["lag_seconds", "webhook"] == 0
        assert ("lag_seconds", "message") not in found
        assert found["queue_window", "noop"] == 256
        assert found["queue_claims_per_second", "noop"] == 12.5
        assert found["lease_term", "beat-1", "leader"] == 1
        assert 0 < found["lease_seconds_left", "beat-1", "leader"] <= 600
        assert found["workers", "jobs.noop"] == 1
        assert found["worker_names_shared",] == 1
        assert -330 < found["clock_offset_seconds", "beat@a:1"] < -270
        assert found["rate_limit_bypassed_total", "beat@a:1"] == 7
        assert found["retention_backlog_triggers",] == 0
        assert 0 < found["partitions_ahead_seconds", "jobs_activityminute"] <= 3 * 86_400
        assert found["partitions_ahead_seconds", "jobs_attempt"] > 14 * 86_400
        assert found["default_partition_rows", "jobs_attempt"] == 0
        assert 1 <= found["connections_used",] <= found["connections_max",]

    def test_is_what_is_late_before_it_is_due(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        # Jobs of suspended tenants come first, however many.
        monkeypatch.setattr(figures, "MAX_AHEAD", 1)
        calm = samples(client)
        assert calm["materialization_lag_seconds",] == calm["feed_lag_seconds",] == calm["catch_ups",] == 0
        hour_ago = factories.now() - 60 * MINUTE
        for policy in ("fire_all", "skip"):
            job = make_job(next_fire_at=hour_ago)
            instants = {"from_at": hour_ago, "until_at": factories.now(), "cursor": hour_ago}
            known = {"tenant_id": job.tenant_id, "job_version": 1, "origin": "outage", "policy": policy}
            CatchUp.objects.create(job=job, created_at=factories.now(), **instants, **known)
        make_job(make_tenant(status="suspended"), next_fire_at=hour_ago - 60 * MINUTE)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_message (job_type, items, created_at)"
                " SELECT 'noop', '[]', carillon_now() - n * interval '1 minute' FROM generate_series(1, 3) n"
            )
            cursor.execute("INSERT INTO jobs_feedreader (name, xid, event_id) VALUES ('notifier', '1', 0)")
            cursor.execute("UPDATE jobs_event SET at = at - interval '5 minutes'")
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        workers.announce(name="w2", queues=["jobs.noop", "jobs.webhook"], concurrency=2)
        metrics.kept.forget()
        found = samples(client)
        assert 3_600 <= found["materialization_lag_seconds",] < 3_700
        assert found["catch_ups",] == 2
        assert found["messages_waiting", "noop"] == 3
        assert 180 <= found["messages_oldest_seconds", "noop"] < 280
        assert 300 <= found["feed_lag_seconds",] < 400
        assert (found["worker_slots", "jobs.noop"], found["worker_slots", "jobs.webhook"]) == (6, 2)

    def test_is_what_is_parked_and_why_and_how_late_it_is(self, client: Client) -> None:
        job = make_job()
        hour_ago = factories.now() - 60 * MINUTE
        parked = {"held": True, "parked": True}
        make_trigger(job, due_at=hour_ago, parked_until=factories.now() + MINUTE, **parked)
        make_trigger(job, due_at=hour_ago + MINUTE, **parked)
        make_trigger(job, due_at=hour_ago + MINUTE, **parked)
        make_trigger(job, due_at=factories.now() + MINUTE, **parked)
        make_trigger(make_job(make_tenant(status="suspended")), due_at=hour_ago - MINUTE, **parked)
        make_trigger(make_job(status="paused"), due_at=hour_ago - MINUTE, held=True)
        found = samples(client)
        assert found["parked_triggers", "rate", "noop"] == 1
        assert found["parked_triggers", "overlap", "noop"] == 2
        assert found["due_triggers", "noop"] == 3
        assert 3_600 <= found["lag_seconds", "noop"] < 3_655

    def test_is_which_runs_of_workflows_go_on_and_since_when(self, client: Client) -> None:
        calm = samples(client)
        assert calm["workflow_runs_running",] == calm["workflow_run_oldest_seconds",] == 0
        assert calm["workflow_tasks", "waiting"] == 0
        workflow = make_workflow(
            make_tenant(), ("extract", "load"), ("load", "report"), tasks=["other"], max_parallel=1
        )
        runs = [begin(workflow) for _ in range(3)]
        for run, minutes in zip(runs, (9, 5, 30), strict=True):
            WorkflowRun.objects.filter(id=run.id).update(created_at=factories.now() - minutes * MINUTE)
        pause_run(tenant=workflow.tenant, run_id=runs[2].id)
        metrics.kept.forget()
        found = samples(client)
        assert (found["workflow_runs_running",], found["workflow_runs_paused",]) == (3, 1)
        assert 540 <= found["workflow_run_oldest_seconds",] < 600
        states = ("waiting", "ready", "started")
        assert [found["workflow_tasks", state] for state in states] == [6, 3, 3]

    def test_is_how_late_every_lane_is_however_many_triggers_are_counted(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(figures, "MAX_LANES", 1)
        monkeypatch.setattr(figures, "MAX_OF_LANE", 3)
        hour_ago = factories.now() - 60 * MINUTE
        deep, other = make_job(), make_job(job_type="webhook")
        for _ in range(5):
            make_trigger(deep, due_at=hour_ago)
        for _ in range(2):
            make_trigger(other, due_at=hour_ago + MINUTE)
        found = samples(client)
        assert (found["due_triggers", "noop"], found["due_triggers", "webhook"]) == (3, 1)
        assert 3_600 <= found["lag_seconds", "noop"] < 3_655
        assert 3_540 <= found["lag_seconds", "webhook"] < 3_595

    def test_is_what_retention_should_have_dropped(self, client: Client) -> None:
        long_ago = factories.now() - 91 * 24 * 60 * MINUTE
        oldest = first_id_since(long_ago)
        make_trigger(None, "succeeded", id=oldest, scheduled_for=long_ago, finished_at=long_ago)
        make_trigger(None, "succeeded", id=UUID(int=oldest.int + 1), scheduled_for=long_ago)
        assert samples(client)["retention_backlog_triggers",] == 1

    def test_is_asked_of_the_database_once_in_a_few_seconds(self, client: Client) -> None:
        with CaptureQueriesContext(connection) as first:
            samples(client)
        with CaptureQueriesContext(connection) as second:
            samples(client)
        assert (0 < len(first) < 18, len(second)) == (True, 0)

    def test_is_that_the_database_is_away(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(**_: Any) -> Any:
            raise OperationalError("the server is gone")

        monkeypatch.setattr(metrics, "figures", away)
        monkeypatch.setattr(metrics, "broker_answers", lambda: False)
        assert samples(client) == {("up",): 0, ("broker_up",): 0}

    def test_is_that_a_frozen_database_is_away(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        # It accepts connections and never answers, as the kernel does for a process that stands still.
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

"""``/metrics``: what it tells, to whom, and that it costs the database little."""

import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from jobs.actions.workflows.runs import pause_run
from jobs.api import metrics
from jobs.core.activity import KINDS, SECONDS_BUCKETS, SECONDS_SUM
from jobs.models import CatchUp, MetricTenant, WorkflowRun
from jobs.models.fields import first_id_since
from jobs.store.insight import activity, clocks, rollup, workers
from jobs.store.insight import metrics as figures
from tenants.models import Tenant
from tests import factories
from tests.factories import MINUTE, make_job, make_tenant, make_trigger, take_lease
from tests.workflows.playing import begin, make_workflow

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
        # Those of suspended tenants come first, however many.
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


class TestWhatHappened:
    """Counters and histograms, from the counts that processes added."""

    @staticmethod
    def named(started: int = 1) -> Tenant:
        tenant = make_tenant()
        MetricTenant.objects.create(tenant_id=tenant.id, named_at=factories.now())
        activity.add({(tenant.id, "noop"): {"started": started}})
        return tenant

    def test_is_told_by_job_type_and_tenant(self, client: Client) -> None:
        tenant = self.named(3)
        rest = {kind: nth for nth, kind in enumerate(KINDS, 1)}
        activity.add({(make_tenant().id, "noop"): rest})
        found = samples(client)
        assert found["attempts_started_total", "noop", tenant.slug] == 3
        for name, kind in (
            ("triggers_created", "created"),
            ("triggers_withdrawn", "withdrawn"),
            ("dispatched", "dispatched"),
            ("handed_back", "handed_back"),
            ("messages_lost", "messages_lost"),
            ("attempts_started", "started"),
            ("retries", "retried"),
            ("triggers_cancelled", "cancelled"),
            ("triggers_replayed", "replayed"),
            ("duplicates_prevented", "duplicates_prevented"),
        ):
            assert found[f"{name}_total", "noop", "other"] == rest[kind]
        assert found["attempts_ended_total", "noop", "timed_out", "other"] == rest["ended_timed_out"]
        assert found["dead_letters_total", "noop", "poison", "other"] == rest["buried_poison"]
        assert found["triggers_skipped_total", "noop", "misfire", "other"] == rest["skipped_misfire"]

    def test_leaves_no_kind_out(self, client: Client) -> None:
        """Each is of a job type of its own here, and shows in a sample of that type."""
        activity.add({(7, kind): {kind: 1_000_000 + nth} for nth, kind in enumerate(KINDS)})
        found = samples(client)
        for nth, kind in enumerate(KINDS):
            shown = (1_000_000 + nth) / (1_000_000 if kind.endswith("_us") else 1)
            assert shown in {value for key, value in found.items() if kind in key}, kind

    def test_has_lags_and_durations_as_histograms(self, client: Client) -> None:
        counts = {
            "lag_us": 2_500_000,
            "lag_9": 2,
            "lag_10": 1,
            "duration_us": 9_000,
            "duration_3": 1,
            "duration_20": 1,
        }
        activity.add({(7, "noop"): counts})
        found = samples(client)
        for family, label in (("start_lag_seconds", "noop"), ("tenant_start_lag_seconds", "other")):
            buckets = [value for key, value in found.items() if key[0] == f"{family}_bucket" and label in key]
            assert buckets == [0] * 9 + [2] + [3] * 11
            assert (found[f"{family}_count", label], found[f"{family}_sum", label]) == (3, 2.5)
        assert found["attempt_duration_seconds_bucket", "noop", "3600.0"] == 1
        assert found["attempt_duration_seconds_count", "noop"] == 2
        assert found["attempt_duration_seconds_sum", "noop"] == 0.009

    def test_begins_with_zero_so_that_the_first_increase_shows(self, client: Client) -> None:
        activity.add({(7, "noop"): {"started": 1}})
        found = samples(client)
        assert found["messages_lost_total", "noop", "other"] == 0
        assert found["dead_letters_total", "noop", "poison", "other"] == 0

    def test_has_no_series_that_a_tenant_could_invent(self, client: Client) -> None:
        def declare(number: int) -> None:
            job = make_job(job_type=f"own{number}@{number}")
            make_trigger(job, "running")
            make_trigger(job, due_at=factories.now() - MINUTE)
            make_trigger(job, due_at=factories.now() - MINUTE, held=True, parked=True)
            workers.announce(name=f"p{number}", queues=[f"jobs.own{number}@{number}"], concurrency=1)
            activity.add({(job.tenant_id, job.job_type): {"started": 1}})
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO jobs_queue VALUES (%s, 256, 12.5, 70, 0, now())", [job.job_type])

        declare(0)
        with_one = samples(client).keys()
        for number in range(1, 20):
            declare(number)
        metrics.kept.forget()
        found = samples(client)
        assert found.keys() == with_one
        assert not any("own" in label for key in found for label in key[1:])
        assert found["attempts_started_total", "declared@tenants", "other"] == 20
        assert found["due_triggers", "declared@tenants"] == 40
        assert found["workers", "declared@tenants"] == 20
        assert found["queue_window", "declared@tenants"] == 20 * 256

    def test_is_what_processes_tell_of_themselves_too(self, client: Client) -> None:
        assert samples(client)["publish_failures_total",] == 0
        for steps in (1, 2):
            activity.add_own(
                {
                    ("step_failures", ("reap",)): {"times": steps},
                    ("publish_failures", ()): {"times": 5},
                    ("step_seconds", ("dispatch",)): {"us": 1_500_000, "le_9": 1},
                    ("no_longer_told", ()): {"times": 1},
                }
            )
        metrics.kept.forget()
        found = samples(client)
        assert found["step_failures_total", "reap"] == 3
        assert found["publish_failures_total",] == 10
        assert found["step_seconds_sum", "dispatch"] == 3.0
        assert (
            found["step_seconds_bucket", "0.5", "dispatch"]
            == 0
            < found["step_seconds_count", "dispatch"]
            == 2
        )
        assert not any("no_longer_told" in key[0] for key in found)

    def test_is_what_became_of_runs_of_workflows(self, client: Client) -> None:
        seconds = {SECONDS_SUM: 180_000_000, SECONDS_BUCKETS[16]: 1}
        activity.add_own(
            {("workflow_runs", ("failed",)): {"times": 2}, ("workflow_run_seconds", ("failed",)): seconds}
        )
        found = samples(client)
        assert found["workflow_runs_total", "failed"] == 2
        assert found["workflow_run_seconds_count", "failed"] == 1
        assert found["workflow_run_seconds_sum", "failed"] == 180

    def test_only_goes_up_whatever_becomes_of_minutes_hours_and_names(
        self, client: Client, clock: Callable[[timedelta], None]
    ) -> None:
        tenants = [make_tenant() for _ in range(4)]
        seen: dict[tuple[str, ...], float] = {}
        sums = []
        for turn, busy in enumerate([*tenants, tenants[0]]):
            for tenant in tenants:
                activity.add(
                    {(tenant.id, "noop"): {"started": 1 + 1000 * (tenant == busy) * (turn + 1) ** 2}}
                )
            rollup.name_tenants(places=2)
            clock(timedelta(days=4 * turn))
            while rollup.roll_up():
                pass
            rollup.drop(retention=timedelta(days=5))
            metrics.kept.forget()
            found = {
                key: value for key, value in samples(client).items() if key[0] == "attempts_started_total"
            }
            lost = seen.keys() - found.keys()
            assert all(found[key] >= value for key, value in seen.items() if key in found)
            assert ("attempts_started_total", "noop", "other") in found
            assert len(found) <= 3
            seen = found
            sums.append(len(lost))
        assert sum(sums) > 0  # names did change

    def test_says_of_each_family_what_it_is(self, client: Client) -> None:
        self.named()
        for line in client.get("/metrics").content.decode().splitlines():
            if line.startswith("# HELP"):
                assert line.endswith("."), line
            if line.startswith("# TYPE") and line.endswith(" counter"):
                assert line.split()[2].endswith("_total")


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

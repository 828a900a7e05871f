"""``/metrics``: past events, as counters and histograms."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client

from jobs.api import metrics
from jobs.core.activity import KINDS, SECONDS_BUCKETS, SECONDS_SUM
from jobs.models import MetricTenant
from jobs.store.insight import rollup, workers
from tenants.models import Tenant
from tests import factories
from tests.activity_records import record
from tests.factories import MINUTE, make_job, make_tenant, make_trigger
from tests.interfaces.metrics.samples import samples

pytestmark = pytest.mark.django_db


class TestWhatHappened:
    """Counters and histograms, from the counts that processes added."""

    @staticmethod
    def named(started: int = 1) -> Tenant:
        tenant = make_tenant()
        MetricTenant.objects.create(tenant_id=tenant.id, named_at=factories.now())
        record({(tenant.id, "noop"): {"started": started}})
        return tenant

    def test_is_told_by_job_type_and_tenant(self, client: Client) -> None:
        tenant = self.named(3)
        rest = {kind: nth for nth, kind in enumerate(KINDS, 1)}
        record({(make_tenant().id, "noop"): rest})
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
        """Each kind has a job type of its own here, and shows in a sample of that type."""
        record({(7, kind): {kind: 1_000_000 + nth} for nth, kind in enumerate(KINDS)})
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
        record({(7, "noop"): counts})
        found = samples(client)
        for family, label in (("start_lag_seconds", "noop"), ("tenant_start_lag_seconds", "other")):
            buckets = [value for key, value in found.items() if key[0] == f"{family}_bucket" and label in key]
            assert buckets == [0] * 9 + [2] + [3] * 11
            assert (found[f"{family}_count", label], found[f"{family}_sum", label]) == (3, 2.5)
        assert found["attempt_duration_seconds_bucket", "noop", "3600.0"] == 1
        assert found["attempt_duration_seconds_count", "noop"] == 2
        assert found["attempt_duration_seconds_sum", "noop"] == 0.009

    def test_begins_with_zero_so_that_the_first_increase_shows(self, client: Client) -> None:
        record({(7, "noop"): {"started": 1}})
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
            record({(job.tenant_id, job.job_type): {"started": 1}})
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
            record(
                {},
                own={
                    ("step_failures", ("reap",)): {"times": steps},
                    ("publish_failures", ()): {"times": 5},
                    ("step_seconds", ("dispatch",)): {"us": 1_500_000, "le_9": 1},
                    ("no_longer_told", ()): {"times": 1},
                },
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
        record(
            {},
            own={
                ("workflow_runs", ("failed",)): {"times": 2},
                ("workflow_run_seconds", ("failed",)): seconds,
            },
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
                record({(tenant.id, "noop"): {"started": 1 + 1000 * (tenant == busy) * (turn + 1) ** 2}})
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

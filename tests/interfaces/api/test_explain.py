"""``/triggers/{id}/explain``, ``/jobs/{id}/explain``, ``/tenant``: why something waits, and the use of quotas."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.explain import GATE_NAMES
from jobs.limits import Buckets, tenant_bucket
from jobs.models import CatchUp
from jobs.store.insight import usage, workers
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    make_attempt,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    now,
    take_lease,
)
from tests.interfaces.api.caller import Caller


@pytest.fixture(autouse=True)
def calm(db: None) -> None:
    """A beat leads and a worker takes from the queue."""
    take_lease(duration=HOUR)
    workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)


def gates(explained: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {gate["gate"]: gate for gate in explained["gates"]}


class TestATrigger:
    def test_is_explained_gate_by_gate_in_order(self, owner: Caller) -> None:
        owner.tenant.max_in_flight = 1
        owner.tenant.save()
        make_running(make_job(owner.tenant))
        trigger = make_trigger(make_job(owner.tenant))
        explained = owner.get(f"/triggers/{trigger.id}/explain").json()
        assert list(gates(explained)) == list(GATE_NAMES)
        assert explained["blocking"] == ["tenant_cap"]
        assert explained["summary"] == f"Tenant {owner.tenant.slug}: 1 of 1 in flight."
        assert gates(explained)["tenant_cap"] == {
            "gate": "tenant_cap",
            "passed": False,
            "detail": explained["summary"],
            "opens_at": None,
            "limit": 1,
            "used": 1,
            "blockers": [],
        }
        assert explained["at"].endswith("Z")

    def test_tells_when_a_gate_opens_and_what_is_in_the_way(self, owner: Caller) -> None:
        job = make_job(owner.tenant, overlap_policy="queue")
        other, _ = make_running(job)
        trigger = make_trigger(job, due_at=now() + HOUR, scheduled_for=now() + HOUR)
        explained = owner.get(f"/triggers/{trigger.id}/explain").json()
        assert explained["blocking"] == ["due", "overlap"]
        assert datetime.fromisoformat(gates(explained)["due"]["opens_at"]) == trigger.due_at
        assert gates(explained)["overlap"]["blockers"] == [str(other.id)]

    def test_that_has_ended_is_told_with_its_reason(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "skipped", reason="overlap")
        explained = owner.get(f"/triggers/{trigger.id}/explain").json()
        assert (explained["state"], explained["reason"]) == ("skipped", "overlap")
        assert (explained["gates"], explained["blocking"]) == ([], [])
        assert "another trigger of its job was unfinished" in explained["summary"]

    def test_names_no_trigger_of_another_tenant(self, owner: Caller, outsider: Caller) -> None:
        foreign = make_trigger(
            make_job(outsider.tenant, concurrency_key="db"), "queued", concurrency_key="db"
        )
        trigger = make_trigger(make_job(owner.tenant, concurrency_key="db", max_concurrent=1))
        answer = owner.get(f"/triggers/{trigger.id}/explain")
        assert answer.json()["blocking"] == []
        assert str(foreign.id) not in answer.content.decode()


class TestAJob:
    def test_is_explained_by_what_has_waited_longest(self, owner: Caller) -> None:
        job = make_job(owner.tenant, overlap_policy="queue")
        make_running(job)
        make_trigger(job, "retrying", due_at=now() + HOUR)
        early, _ = (make_trigger(job, scheduled_for=now() - n * MINUTE) for n in (3, 2))
        explained = owner.get(f"/jobs/{job.id}/explain").json()
        assert explained["unfinished"] == {"pending": 2, "queued": 0, "running": 1, "retrying": 1}
        assert explained["oldest_waiting"]["trigger_id"] == str(early.id)
        assert explained["oldest_waiting"]["blocking"] == ["overlap"]
        assert explained["summary"].endswith(explained["oldest_waiting"]["summary"])

    def test_that_is_paused_says_why(self, owner: Caller) -> None:
        job = make_job(owner.tenant, status="paused", status_reason="The target answered 410 Gone.")
        make_trigger(job, held=True)
        explained = owner.get(f"/jobs/{job.id}/explain").json()
        assert (explained["status"], explained["next_fire_at"]) == ("paused", None)
        assert explained["summary"].startswith("The job is paused: The target answered 410 Gone.")
        assert explained["oldest_waiting"]["blocking"] == ["job"]

    def test_of_which_nothing_waits_says_when_it_fires_next(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        make_running(job)
        explained = owner.get(f"/jobs/{job.id}/explain").json()
        assert explained["oldest_waiting"] is None
        assert explained["summary"] == "The job is active; nothing of it waits, and 1 trigger of it runs."
        assert datetime.fromisoformat(explained["next_fire_at"]) > now()

    def test_shows_the_catch_up_in_hand(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        begun = now() - HOUR
        plain = {
            "job": job,
            "tenant_id": job.tenant_id,
            "job_version": 1,
            "policy": "fire_all",
            "from_at": begun,
            "until_at": begun + HOUR,
            "cursor": begun,
            "created_at": begun,
        }
        CatchUp.objects.create(**plain, origin="outage", fired=3)
        CatchUp.objects.create(**plain, origin="backfill", finished_at=now())
        [catch_up] = owner.get(f"/jobs/{job.id}/explain").json()["catch_up"]
        assert (catch_up["origin"], catch_up["fired"]) == ("outage", 3)

    def test_asks_as_much_for_many_triggers_as_for_few(self, owner: Caller) -> None:
        job = make_job(owner.tenant)

        def statements() -> int:
            with CaptureQueriesContext(connection) as queries:
                assert owner.get(f"/jobs/{job.id}/explain").status_code == 200
            return len(queries)

        make_trigger(job)
        statements()  # the first one notes the key's use
        few = statements()
        for _ in range(20):
            make_trigger(job)
        assert statements() == few

    def test_that_is_deleted_is_not_found(self, owner: Caller) -> None:
        assert owner.get(f"/jobs/{make_job(owner.tenant, deleted_at=now()).id}/explain").status_code == 404


class TestTenant:
    def test_sees_its_quotas_and_what_it_uses_of_each(self, owner: Caller, outsider: Caller) -> None:
        job = make_job(owner.tenant)
        for state in ("pending", "queued", "queued", "running", "dead"):
            make_trigger(job, state)
        make_job(owner.tenant, deleted_at=now())
        make_trigger(make_job(outsider.tenant), "running")
        shown = owner.get("/tenant").json()
        assert shown["slug"] == owner.tenant.slug
        assert shown["limits"] == {
            "weight": 100,
            "max_in_flight": 1000,
            "max_jobs": 1_000_000,
            "max_payload_bytes": 65_536,
            "max_backfill": 10_000,
            "rate_per_second": None,
            "rate_burst": None,
        }
        used = shown["usage"]
        assert (used["jobs"], used["in_flight"], used["queued"], used["running"]) == (1, 3, 2, 1)
        assert used["starts_allowed_now"] is None
        assert "whsec_" not in str(shown)

    def test_sees_its_share_of_the_latest_starts_and_no_other_s(self, owner: Caller) -> None:
        for tenant, starts in ((owner.tenant, 3), (make_tenant(), 9)):
            for _ in range(starts):
                make_running(make_job(tenant))
        trigger = make_trigger(make_job(owner.tenant), "running")
        make_attempt(trigger, started_at=now() - 2 * MINUTE)  # started too long ago
        recent = owner.get("/tenant").json()["recent"]
        assert (recent["starts"], recent["share"]) == (3, 0.25)
        assert recent["seconds"] == 60
        assert owner.get("/tenant").json()["usage"]["starts_per_second"] == 0.05

    def test_sees_how_long_its_firings_waited(self, owner: Caller) -> None:
        job, moment = make_job(owner.tenant), now()
        for wait in range(1, 101):
            due_at = moment - timedelta(milliseconds=10 * wait)
            make_attempt(make_trigger(job, "running", due_at=due_at, started_at=moment), started_at=moment)
        # The waits of these are not known, or were no waits: a retry, and one of long ago.
        make_trigger(job, "retrying", due_at=moment + HOUR, started_at=moment)
        make_trigger(job, "running", due_at=moment - 2 * HOUR, started_at=moment - HOUR)
        recent = owner.get("/tenant").json()["recent"]
        assert recent["sample_size"] == 100
        waits = recent["wait_seconds"]
        assert waits["p50"] == pytest.approx(0.505, abs=0.01)
        assert waits["p95"] == pytest.approx(0.95, abs=0.01)
        assert waits["p99"] == pytest.approx(0.99, abs=0.01)

    def test_without_any_firing_has_no_share_and_no_waits(self, owner: Caller) -> None:
        recent = owner.get("/tenant").json()["recent"]
        assert (recent["share"], recent["wait_seconds"], recent["sample_size"]) == (None, None, 0)

    def test_sees_starts_over_the_time_they_are_known_of(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(usage, "MAX_STARTS", 4)
        for age in (40, 30, 20, 10, 0):
            trigger = make_trigger(make_job(owner.tenant), "running")
            make_attempt(trigger, started_at=now() - age * SECOND)
        recent = owner.get("/tenant").json()["recent"]
        assert recent["starts"] == 4
        assert 30 <= recent["seconds"] < 35

    def test_sees_what_its_rate_lets_go(self, owner: Caller, settings: Any) -> None:
        owner.tenant.rate_per_second, owner.tenant.rate_burst = 1, 500
        owner.tenant.save()
        bucket = tenant_bucket(owner.tenant.id, 1, 500)
        assert bucket is not None
        Buckets(url=settings.REDIS_URL).take(bucket, 300)
        assert 200 <= owner.get("/tenant").json()["usage"]["starts_allowed_now"] < 300

    def test_asks_as_much_for_many_rows_as_for_few(
        self, owner: Caller, django_assert_num_queries: Callable[..., Any]
    ) -> None:
        owner.get("/tenant")
        with CaptureQueriesContext(connection) as few:
            owner.get("/tenant")
        for _ in range(20):
            make_running(make_job(owner.tenant))
        with django_assert_num_queries(len(few)):
            owner.get("/tenant")

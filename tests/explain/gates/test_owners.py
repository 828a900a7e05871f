"""Gates of the owners of a trigger: its job and its tenant, the tenant's limits, and the beat that leads."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.explain import explain_trigger
from jobs.limits import Buckets, Rates, tenant_bucket
from jobs.models import Lease
from jobs.store import execution
from tests.explain.asking import Tokens, blocking, explain, gate, is_dispatched, passed
from tests.factories import (
    MINUTE,
    SECOND,
    finish_of,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    now,
    take_lease,
)


class TestJob:
    def test_blocks_while_it_is_paused(self) -> None:
        trigger = make_trigger(origin="run_now")  # a scheduled one would be skipped on resume
        job = trigger.job
        actions.pause_job(tenant=job.tenant, job_id=job.id)
        assert blocking(trigger) == ["job"]
        assert not is_dispatched(trigger)
        actions.resume_job(tenant=job.tenant, job_id=job.id)
        passed(trigger)

    def test_says_why_it_is_paused(self) -> None:
        job = make_job(status="paused", status_reason="The target answered 410 Gone.")
        trigger = make_trigger(job, held=True)
        assert gate(trigger, "job").detail == "Its job is paused: The target answered 410 Gone."


class TestTenant:
    @pytest.mark.parametrize("status", ["suspended", "frozen"])
    def test_blocks_while_it_is_not_active(self, status: str) -> None:
        trigger = make_trigger(attempt_count=1, state="retrying")
        tenant = trigger.tenant
        tenant.status = status
        tenant.save()
        assert blocking(trigger) == ["tenant"]
        assert f"{tenant.slug} is {status}" in gate(trigger, "tenant").detail
        assert not is_dispatched(trigger)
        tenant.status = "active"
        tenant.save()
        passed(trigger)


class TestLeader:
    def test_blocks_while_no_beat_leads(self) -> None:
        trigger = make_trigger()
        Lease.objects.update(expires_at=now() - MINUTE)
        assert blocking(trigger) == ["leader"]
        assert "for 1 min" in gate(trigger, "leader").detail
        Lease.objects.all().delete()
        assert "No beat has ever led" in explain(trigger).summary
        take_lease()
        passed(trigger)

    def test_passes_without_election(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"leader_election": False})
        Lease.objects.all().delete()
        passed(make_trigger())


class TestTenantCap:
    def test_opens_when_work_of_the_tenant_ends(self) -> None:
        tenant = make_tenant(slug="acme", max_in_flight=2)
        others = [make_running(make_job(tenant)) for _ in range(2)]
        trigger = make_trigger(make_job(tenant))
        assert blocking(trigger) == ["tenant_cap"]
        assert gate(trigger, "tenant_cap").detail == "Tenant acme: 2 of 2 in flight."
        assert not is_dispatched(trigger)
        execution.finish([finish_of(*others[0])])
        passed(trigger)

    def test_is_of_no_interest_to_another_tenant(self) -> None:
        make_running(make_job(make_tenant(max_in_flight=1)))
        passed(make_trigger())


class TestTenantRate:
    def test_opens_when_there_are_tokens_again(self) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=2, rate_burst=4)))
        spent = Tokens(**{f"tenant_{trigger.tenant_id}": 0})
        assert blocking(trigger, spent) == ["tenant_rate"]
        found = gate(trigger, "tenant_rate", spent)
        assert (found.limit, found.used) == (2, 4)
        assert found.opens_at is not None
        assert timedelta() < found.opens_at - now() <= SECOND / 2
        assert not is_dispatched(trigger, rates=spent)
        assert blocking(trigger, Tokens(**{f"tenant_{trigger.tenant_id}": 1})) == []
        assert is_dispatched(trigger, rates=Tokens(**{f"tenant_{trigger.tenant_id}": 1}))

    def test_goes_by_the_buckets_that_beats_share(self, settings: Any) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=1, rate_burst=1)))
        bucket = tenant_bucket(trigger.tenant_id, 1, 1)
        assert bucket is not None
        buckets = Buckets(url=settings.REDIS_URL)
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=buckets.available)
        assert asked.blocking == []
        buckets.spend({bucket: 5})  # four more than there are: no test takes long enough to refill them
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=buckets.available)
        assert [gate.name for gate in asked.blocking] == ["tenant_rate"]
        assert not is_dispatched(trigger, rates=Rates(buckets))

    def test_passes_while_redis_is_away(self) -> None:
        trigger = make_trigger(make_job(make_tenant(rate_per_second=1)))
        away = Buckets(url="redis://127.0.0.1:1/0")
        asked = explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=away.available)
        assert asked.blocking == []
        assert any("each beat counts by itself" in gate.detail for gate in asked.gates)

"""A refusal names the quota, its limit and its use. A quota lowered below its use takes effect as work drains."""

from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.core.errors import InvalidInput
from jobs.models import Job
from jobs.store import execution
from tenants.actions import update_tenant
from tests.factories import (
    dispatch,
    finish_of,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    make_triggers,
    states,
)
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(db: None, job_types: None) -> Caller:
    return Caller(make_tenant())


class TestAQuotaThatIsReached:
    def test_of_jobs_is_a_conflict_that_names_it(self, owner: Caller) -> None:
        update_tenant(tenant=owner.tenant, max_jobs=2)
        for number in range(2):
            assert owner.post("/jobs", noop_job(name=f"job-{number}")).status_code == 201
        refused = owner.post("/jobs", noop_job(name="another"))
        assert refused.status_code == 409
        assert refused["Content-Type"] == "application/problem+json"
        problem = refused.json()
        assert problem["type"] == "urn:carillon:problem:quota-exceeded"
        assert (problem["quota"], problem["limit"], problem["used"]) == ("max_jobs", 2, 2)
        assert "max_jobs is 2 and 2 are in use" in problem["detail"]
        assert Job.objects.count() == 2

    def test_of_payload_bytes_is_told_at_the_payload(self, owner: Caller) -> None:
        update_tenant(tenant=owner.tenant, max_payload_bytes=10)
        refused = owner.post("/jobs", noop_job(payload={"sleep_ms": 1000}))
        assert faulty_fields(refused) == {"payload"}
        assert refused.json()["errors"][0]["message"].startswith(
            "Takes more than 10 bytes as JSON, the quota max_payload_bytes;"
        )

    def test_of_a_backfill_is_told_at_its_end(self, owner: Caller) -> None:
        update_tenant(tenant=owner.tenant, max_backfill=10)
        job = make_job(owner.tenant, schedule_type="cron", cron_expression="* * * * *", interval=None)
        stretch = {"start": "2025-03-01T00:00:00Z", "end": "2025-03-01T01:00:00Z"}
        refused = owner.post(f"/jobs/{job.id}/backfill", stretch)
        assert faulty_fields(refused) == {"end"}
        assert "more than 10 firings, the quota max_backfill" in refused.json()["errors"][0]["message"]


class TestAQuotaBelowItsUse:
    def test_of_work_in_flight_lets_nothing_start_until_it_has_drained(self) -> None:
        tenant = make_tenant(max_in_flight=5)
        job = make_job(tenant)
        running = [make_running(job) for _ in range(5)]
        waiting = make_triggers(job, 4)
        update_tenant(tenant=tenant, max_in_flight=2)
        for left in (5, 4, 3, 2):
            dispatch()
            assert states(waiting) == ["pending"] * 4, left
            execution.finish([finish_of(*running.pop())])
        dispatch()
        assert states(waiting) == ["queued", "pending", "pending", "pending"]
        execution.finish([finish_of(*running.pop())])
        dispatch()
        assert states(waiting) == ["queued", "queued", "pending", "pending"]

    def test_that_is_raised_lets_more_start_at_once(self) -> None:
        tenant = make_tenant(max_in_flight=1)
        waiting = make_triggers(make_job(tenant), 3)
        dispatch()
        update_tenant(tenant=tenant, max_in_flight=2)
        dispatch()
        assert states(waiting) == ["queued", "queued", "pending"]

    def test_of_jobs_leaves_those_there_are_and_lets_none_be_added(self, owner: Caller) -> None:
        tenant = owner.tenant
        assert tenant is not None
        kept = [make_job(tenant) for _ in range(3)]
        trigger = make_trigger(kept[0])
        update_tenant(tenant=tenant, max_jobs=2)
        problem = owner.post("/jobs", noop_job()).json()
        assert (problem["limit"], problem["used"]) == (2, 3)
        dispatch()
        assert states([trigger]) == ["queued"]
        for job in kept[:2]:
            actions.delete_job(tenant=tenant, job_id=job.id)
        assert owner.post("/jobs", noop_job()).status_code == 201

    @pytest.mark.parametrize("whole", [False, True])
    def test_of_payload_bytes_lets_a_larger_payload_stay_but_not_change(
        self, owner: Caller, whole: bool
    ) -> None:
        tenant = owner.tenant
        assert tenant is not None
        definition = noop_job(payload={"sleep_ms": 1000})
        job = actions.create_job(tenant=tenant, definition=definition)
        tenant = update_tenant(tenant=tenant, max_payload_bytes=10)

        def edit(**changes: Any) -> Job:
            changed = definition | changes if whole else changes
            return actions.update_job(tenant=tenant, job_id=job.id, changes=changed, whole=whole)

        assert edit(priority="high").version == 2
        with pytest.raises(InvalidInput) as refused:
            edit(payload={"sleep_ms": 2000})
        assert list(refused.value.errors) == ["payload"]
        assert edit(payload={}).payload == ({} if whole else {"sleep_ms": 1000})

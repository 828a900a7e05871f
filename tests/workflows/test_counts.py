"""Triggers that the database makes for tasks are counted as created: each of them once, however it ends."""

import pytest

from jobs.actions.workflows import answers, runs
from jobs.activity import activity
from jobs.models import Trigger
from tenants.models import Tenant
from tests.factories import dispatch, make_tenant
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)
SIGNAL = {"type": "signal", "name": "paid"}


@pytest.fixture(autouse=True)
def counted_by_this_test() -> None:
    activity.forget()


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def created() -> dict[str, int]:
    """Created triggers by job type, since the last call."""
    taken = activity.take()
    return {
        job_type: counts["created"] for (_, job_type), counts in taken.items() if counts.get("created", 0)
    }


class TestCreated:
    def test_counts_each_task_once_it_is_queued(self, tenant: Tenant) -> None:
        run = begin(make_workflow(tenant, ("a", "c"), ("b", "c")))
        assert created() == {}
        rows = claim_due()
        assert created() == {"noop": 2}
        finish(rows, lambda row: "succeeded")
        play(run)
        assert created() == {"noop": 1}
        assert Trigger.objects.count() == 3

    def test_counts_each_item_of_a_map(self, tenant: Tenant) -> None:
        over = {"over": {"$from": "workflow.input"}, "max_parallel": 2}
        play(begin(make_workflow(tenant, tasks=["each"], maps={"each": over}), run_input=[1, 2, 3, 4, 5]))
        assert created() == {"noop": 5}

    def test_counts_no_attempt_twice(self, tenant: Tenant) -> None:
        """Neither the attempt of a retry, nor that of a retried run."""
        run = begin(make_workflow(tenant, tasks=["load"]))
        finish(claim_due(), lambda row: "retrying")
        play(run, {"load": "dead"})
        runs.retry_run(tenant=tenant, run_id=run.id)
        play(run)
        assert run.state == "succeeded"
        assert created() == {"noop": 1}

    def test_counts_waits_that_are_answered(self, tenant: Tenant) -> None:
        run = begin(make_workflow(tenant, ("paid", "ship"), waits={"paid": SIGNAL}))
        dispatch()
        assert created() == {}
        answers.signal(tenant=tenant, run_id=run.id, name="paid")
        assert created() == {"carillon.wait": 1}
        play(run)
        assert created() == {"noop": 1}

    def test_counts_what_is_cancelled_before_it_is_queued_and_not_again_in_a_retry(
        self, tenant: Tenant
    ) -> None:
        run = begin(make_workflow(tenant, tasks=["load"]))
        runs.cancel_run(tenant=tenant, run_id=run.id)
        assert created() == {"noop": 1}
        runs.retry_run(tenant=tenant, run_id=run.id)
        play(run)
        assert (run.state, created()) == ("succeeded", {})

    def test_counts_nothing_twice_that_is_cancelled_once_it_is_queued(self, tenant: Tenant) -> None:
        run = begin(make_workflow(tenant, tasks=["load"]))
        dispatch()
        runs.cancel_run(tenant=tenant, run_id=run.id)
        assert created() == {"noop": 1}

    def test_counts_what_a_frozen_tenants_beats_skip(self, tenant: Tenant) -> None:
        begin(make_workflow(tenant, tasks=["load"]))
        Tenant.objects.filter(id=tenant.id).update(status="frozen")
        dispatch()
        assert Trigger.objects.get().reason == "frozen"
        assert created() == {"noop": 1}

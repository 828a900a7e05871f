"""Dispatch at a limit: of a tenant, of a job type, of a job, and of tenants that may not start anything."""

import pytest

from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from tenants.models import Tenant
from tests import factories
from tests.factories import (
    HOUR,
    MINUTE,
    dispatch,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
    state_of,
    states,
)
from tests.store.dispatch.queued import shares

pytestmark = pytest.mark.django_db


class TestCaps:
    @pytest.mark.parametrize("in_flight", [0, 1, 4, 5, 6])
    def test_fill_a_tenant_exactly_to_its_cap(self, in_flight: int) -> None:
        job = make_job(make_tenant(max_in_flight=5))
        for index in range(in_flight):
            make_trigger(job, "queued" if index % 2 else "running")
        make_triggers(job, 8)
        assert len(dispatch().queued) == max(0, 5 - in_flight)
        assert dispatch().queued == []

    def test_count_a_tenants_triggers_over_all_types_and_levels(self) -> None:
        tenant = make_tenant(max_in_flight=4)
        make_trigger(make_job(tenant, job_type="other"), "running")
        for priority in range(4):
            make_triggers(make_job(tenant, priority=priority), 3)
            make_triggers(make_job(tenant, priority=priority, job_type="other"), 3)
        assert len(dispatch(types=["noop", "other"]).queued) == 3

    def test_of_one_tenant_cost_the_others_nothing(self) -> None:
        full, free = make_tenant(max_in_flight=1), make_tenant()
        make_trigger(make_job(full), "running")
        make_triggers(make_job(full), 50, scheduled_for=factories.now() - MINUTE)
        make_triggers(make_job(free), 5)
        assert shares(dispatch(limit=5).queued) == {free.id: 5}

    def test_of_a_type_hold_over_all_tenants(self) -> None:
        make_trigger(make_job(job_type="slow"), "running")
        for _ in range(3):
            make_triggers(make_job(job_type="slow"), 4)
        assert len(dispatch(slow=6).queued) == 5
        assert dispatch(slow=6).queued == []

    def test_leave_other_types_free(self) -> None:
        tenant = make_tenant()
        make_triggers(make_job(tenant, job_type="slow"), 9, scheduled_for=factories.now() - MINUTE)
        make_triggers(make_job(tenant), 9)
        assert shares(dispatch(types=["noop"], slow=2).queued, by="job_type") == {"noop": 9, "slow": 2}

    def test_keep_the_broker_as_shallow_as_the_window(self) -> None:
        job = make_job()
        make_trigger(job, "queued")
        make_trigger(job, "running")
        make_triggers(job, 9)
        result = dispatch(window=4)
        assert (len(result.queued), result.depths, result.full) == (3, {"noop": 4}, {"noop"})
        result = dispatch(window=4)
        assert (result.queued, result.blocked) == ([], True)
        assert dispatch(window=100).full == set()

    @pytest.mark.parametrize(
        ("left", "caps", "ample"),
        [(3, {}, True), (2, {}, False), (4, {}, False), (3, {"slow": 1}, False)],
    )
    def test_can_wait_for_a_queue_that_keeps_most_of_its_window(
        self, left: int, caps: dict[str, int], ample: bool
    ) -> None:
        """At ``left`` 4 nothing says that the triggers wait for the queue. A type at its cap has no full queue."""
        job = make_job()
        make_triggers(job, left, "queued")
        make_triggers(job, 9)
        make_trigger(make_job(job_type="slow"), "running")
        make_triggers(make_job(job_type="slow"), 2)
        result = dispatch(window=4, **caps)
        assert (result.blocked, result.ample) == (True, ample)


class TestWalls:
    def test_pass_over_suspended_tenants(self) -> None:
        suspended, active = make_tenant(status="suspended"), make_tenant()
        waiting = make_triggers(make_job(suspended), 20, scheduled_for=factories.now() - HOUR)
        make_triggers(make_job(active), 3)
        before = [row(trigger) for trigger in waiting]
        assert shares(dispatch(limit=3).queued) == {active.id: 3}
        assert [row(trigger) for trigger in waiting] == before

    def test_let_a_suspended_tenant_go_on_afterwards(self) -> None:
        tenant = make_tenant(status="suspended")
        make_trigger(make_job(tenant))
        assert dispatch().queued == []
        Tenant.objects.filter(id=tenant.id).update(status="active")
        assert len(dispatch().queued) == 1

    def test_hide_held_triggers(self) -> None:
        trigger = make_trigger(held=True)
        assert dispatch().queued == []
        assert state_of(trigger) == ("pending", "")

    @pytest.mark.parametrize("state", ["pending", "retrying"])
    def test_hold_the_triggers_of_a_paused_job_once_seen(self, state: str) -> None:
        trigger = make_trigger(make_job(status="paused"), state)
        assert dispatch().queued == []
        stored = row(trigger)
        assert (stored["state"], stored["held"], stored["fence"]) == (state, True, trigger.fence)
        assert dispatch() == dispatch_store.Dispatched()

    def test_finish_what_a_completed_job_left(self) -> None:
        make_trigger(make_job(status="completed"))
        assert len(dispatch().queued) == 1


class TestFullJobs:
    """A job at its own limit waits; the others of its tenant, type and priority do not wait behind it."""

    def test_do_not_hide_the_due_work_of_others(self) -> None:
        tenant = make_tenant()
        full = make_job(tenant, max_concurrent=1)
        make_trigger(full, "running")
        waiting = make_triggers(full, 30, scheduled_for=factories.now() - MINUTE)
        due = make_trigger(make_job(tenant))
        assert [item.id for item in dispatch(limit=10).queued] == [due.id]
        assert set(states(waiting)) == {"pending"}

    def test_do_not_take_the_last_free_slot(self) -> None:
        tenant = make_tenant(max_in_flight=3)
        full = [make_job(tenant, max_concurrent=1) for _ in range(2)]
        for job in full:
            make_trigger(job, "running")
            make_triggers(job, 2, scheduled_for=factories.now() - MINUTE)
        due = make_trigger(make_job(tenant))
        assert [item.id for item in dispatch().queued] == [due.id]
        assert dispatch().queued == []

    def test_go_on_as_soon_as_they_may(self) -> None:
        job = make_job(max_concurrent=2)
        triggers = make_triggers(job, 5)
        assert [item.id for item in dispatch(limit=4).queued] == [trigger.id for trigger in triggers[:2]]
        Trigger.objects.filter(id=triggers[0].id).update(state="succeeded")
        assert [item.id for item in dispatch(limit=4).queued] == [triggers[2].id]

    def test_count_towards_the_limit_of_one_dispatch(self) -> None:
        tenant = make_tenant()
        full = make_job(tenant, max_concurrent=1)
        make_triggers(full, 3, scheduled_for=factories.now() - MINUTE)
        make_triggers(make_job(tenant), 9)
        result = dispatch(limit=5)
        assert (len(result.queued), result.blocked) == (5, False)

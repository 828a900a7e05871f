"""Dispatch: who goes next (DESIGN §8), judged on rows alone."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store import execution
from tenants.models import Tenant
from tests import factories
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    dispatch,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
    state_of,
    states,
)

pytestmark = pytest.mark.django_db


def shares(queued: list[dispatch_store.Queued], *, by: str = "tenant_id") -> Counter[Any]:
    owners = dict(Trigger.objects.values_list("id", by))
    return Counter(owners[item.id] for item in queued)


class TestDispatch:
    def test_queues_what_is_due_under_a_new_fence(self) -> None:
        trigger = make_trigger(make_job(version=3), fence=4)
        result = dispatch()
        assert result.queued == [dispatch_store.Queued(trigger.id, 5, "noop", tenant_id=trigger.tenant_id)]
        stored = row(trigger)
        assert (stored["state"], stored["fence"], stored["job_version"]) == ("queued", 5, 3)
        assert stored["queued_at"] is not None

    def test_says_who_travels_alone(self) -> None:
        suspect = make_trigger(suspect=True)
        once = make_trigger(make_job(delivery="at_most_once"))
        found = {item.id: (item.suspect, item.at_most_once) for item in dispatch().queued}
        assert found == {suspect.id: (True, False), once.id: (False, True)}

    def test_is_never_early(self, clock: Any) -> None:
        trigger = make_trigger(due_at=factories.now() + MINUTE, scheduled_for=factories.now())
        assert dispatch().queued == []
        clock(MINUTE + SECOND)
        assert [item.id for item in dispatch().queued] == [trigger.id]

    def test_goes_by_due_time_within_a_level(self) -> None:
        job = make_job()
        triggers = make_triggers(job, 5)
        expected = [trigger.id for trigger in triggers]
        assert [item.id for item in dispatch().queued] == expected

    def test_retries_what_is_due_again(self) -> None:
        trigger = make_trigger(state="retrying", attempt_count=2)
        assert len(dispatch().queued) == 1
        assert row(trigger)["attempt_count"] == 2

    def test_leaves_job_types_nobody_serves(self) -> None:
        make_trigger(make_job(job_type="other"))
        result = dispatch()
        assert (result.queued, result.blocked) == ([], False)

    def test_takes_no_more_than_the_limit(self) -> None:
        make_triggers(make_job(), 5)
        result = dispatch(limit=3)
        assert (len(result.queued), result.blocked) == (3, False)
        assert len(dispatch(limit=3).queued) == 2


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
        """At ``left`` 4 nothing says that the queue is what they wait for, and a type at its cap has no full queue."""
        job = make_job()
        make_triggers(job, left, "queued")
        make_triggers(job, 9)
        make_trigger(make_job(job_type="slow"), "running")
        make_triggers(make_job(job_type="slow"), 2)
        result = dispatch(window=4, **caps)
        assert (result.blocked, result.ample) == (True, ample)


class TestFairness:
    def test_interleaves_priorities_8_4_2_1(self) -> None:
        tenant = make_tenant()
        for priority in range(4):
            make_triggers(make_job(tenant, priority=priority), 20)
        queued = dispatch(limit=15).queued
        assert shares(queued, by="priority") == {0: 8, 1: 4, 2: 2, 3: 1}

    def test_lets_a_lone_level_have_everything(self) -> None:
        make_triggers(make_job(priority=3), 20)
        assert len(dispatch(limit=15).queued) == 15

    def test_puts_the_critical_first(self) -> None:
        tenant = make_tenant()
        make_trigger(make_job(tenant, priority=3), scheduled_for=factories.now() - HOUR)
        critical = make_trigger(make_job(tenant, priority=0))
        assert [item.id for item in dispatch(limit=1).queued] == [critical.id]

    def test_starves_no_level_when_slots_come_one_by_one(self) -> None:
        tenant = make_tenant(max_in_flight=15)
        for priority in range(4):
            make_triggers(make_job(tenant, priority=priority), 70)
        assert self.served_one_by_one(room=15, rounds=60, by="priority") == {0: 32, 1: 16, 2: 8, 3: 4}

    def test_shares_slots_by_weight(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (heavy, light):
            make_triggers(make_job(tenant), 50)
        assert shares(dispatch(limit=40).queued) == {heavy.id: 30, light.id: 10}

    def test_gives_an_unused_share_to_the_others(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        make_triggers(make_job(heavy), 5)
        make_triggers(make_job(light), 50)
        assert shares(dispatch(limit=40).queued) == {heavy.id: 5, light.id: 35}

    def test_shares_a_full_window_by_weight_too(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (light, heavy):
            make_triggers(make_job(tenant), 50)
        assert shares(dispatch(window=8).queued) == {heavy.id: 6, light.id: 2}

    def test_starves_no_tenant_when_slots_come_one_by_one(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (light, heavy):
            make_triggers(make_job(tenant), 70)
        assert self.served_one_by_one(room=8, rounds=40) == {heavy.id: 30, light.id: 10}

    @staticmethod
    def served_one_by_one(*, room: int, rounds: int, by: str = "tenant_id") -> Counter[Any]:
        """Fill ``room`` slots, then free the oldest and dispatch one, ``rounds`` times: who got those?"""
        waiting = [item.id for item in dispatch(window=room).queued]
        served: list[dispatch_store.Queued] = []
        for _ in range(rounds):
            Trigger.objects.filter(id=waiting.pop(0)).update(state="succeeded")
            [item] = dispatch(window=room).queued
            waiting.append(item.id)
            served.append(item)
        return shares(served, by=by)


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


class TestOverlap:
    def test_allow_runs_up_to_max_concurrent(self) -> None:
        job = make_job(max_concurrent=3)
        make_trigger(job, "running")
        make_triggers(job, 4)
        assert len(dispatch().queued) == 2
        assert dispatch().queued == []

    @pytest.mark.parametrize("state", ["queued", "running", "retrying"])
    def test_skip_ends_a_firing_while_another_is_unfinished(self, state: str) -> None:
        job = make_job(overlap_policy="skip")
        make_trigger(job, state, due_at=factories.now() + HOUR)
        trigger = make_trigger(job)
        result = dispatch()
        assert (result.queued, result.ended) == ([], {trigger.id: "overlap"})
        assert state_of(trigger) == ("skipped", "overlap")
        assert row(trigger)["finished_at"] is not None

    def test_skip_starts_one_of_those_due_together(self) -> None:
        job = make_job(overlap_policy="skip")
        older, newer = make_triggers(job, 2)
        result = dispatch()
        assert [item.id for item in result.queued] == [older.id]
        assert result.ended == {newer.id: "overlap"}

    def test_skip_lets_a_retry_wait_for_the_other(self) -> None:
        job = make_job(overlap_policy="skip")
        make_trigger(job, "running")
        retry = make_trigger(job, "retrying")
        assert dispatch() == dispatch_store.Dispatched(blocked=True)
        assert state_of(retry) == ("retrying", "")

    @pytest.mark.parametrize("columns", [{"origin": "run_now"}, {"origin": "backfill"}, {"replay_count": 1}])
    def test_skip_never_skips_what_somebody_asked_for(self, columns: dict[str, Any]) -> None:
        job = make_job(overlap_policy="skip")
        running = make_trigger(job, "running")
        wanted = make_trigger(job, **columns)
        assert dispatch() == dispatch_store.Dispatched(blocked=True)
        Trigger.objects.filter(id=running.id).update(state="succeeded")
        assert [item.id for item in dispatch().queued] == [wanted.id]

    def test_skip_leaves_other_jobs_alone(self) -> None:
        tenant = make_tenant()
        make_trigger(make_job(tenant, overlap_policy="skip"), "running")
        make_trigger(make_job(tenant, overlap_policy="skip"))
        assert len(dispatch().queued) == 1


class TestMisfire:
    """Grace 60 s, catch-up window 3,600 s."""

    @staticmethod
    def firings(policy: str, *ages: timedelta, **columns: Any) -> list[Trigger]:
        job = make_job(misfire_policy=policy, overlap_policy="allow", **columns)
        moment = factories.now()
        return [make_trigger(job, scheduled_for=moment - age) for age in ages]

    @pytest.mark.parametrize("policy", ["skip", "fire_once", "fire_all"])
    def test_within_its_grace_a_firing_runs_under_every_policy(self, policy: str) -> None:
        triggers = self.firings(policy, 55 * SECOND, 5 * SECOND)
        dispatch()
        assert states(triggers) == ["queued", "queued"]

    def test_skip_skips_what_was_missed(self) -> None:
        triggers = self.firings("skip", 2 * HOUR, 65 * SECOND, 5 * SECOND)
        dispatch()
        assert [state_of(trigger) for trigger in triggers] == [("skipped", "misfire")] * 2 + [("queued", "")]

    def test_fire_once_runs_the_latest_missed_one(self) -> None:
        triggers = self.firings("fire_once", 3 * HOUR, 30 * MINUTE, 20 * MINUTE, 10 * MINUTE)
        dispatch()
        assert [state_of(trigger) for trigger in triggers] == [
            ("skipped", "misfire"),
            ("skipped", "coalesced"),
            ("skipped", "coalesced"),
            ("queued", ""),
        ]

    def test_fire_once_runs_none_when_all_are_older_than_the_catch_up_window(self) -> None:
        triggers = self.firings("fire_once", 3 * HOUR, 2 * HOUR)
        dispatch()
        assert [state_of(trigger) for trigger in triggers] == [("skipped", "misfire")] * 2

    def test_fire_once_runs_the_latest_missed_one_and_the_one_that_is_on_time(self) -> None:
        triggers = self.firings("fire_once", 10 * MINUTE, 5 * MINUTE, 5 * SECOND)
        dispatch()
        assert states(triggers) == ["skipped", "queued", "queued"]

    def test_fire_once_waits_for_missed_firings_still_to_be_materialized(self) -> None:
        [trigger] = self.firings("fire_once", 20 * MINUTE, next_fire_at=factories.now() - 10 * MINUTE)
        assert dispatch().ended == {trigger.id: "coalesced"}

    def test_fire_all_runs_each_whatever_its_age(self) -> None:
        triggers = self.firings("fire_all", 48 * HOUR, 2 * HOUR, 2 * MINUTE)
        dispatch()
        assert states(triggers) == ["queued"] * 3

    @pytest.mark.parametrize("policy", ["skip", "fire_once"])
    def test_never_skips_a_retry(self, policy: str) -> None:
        job = make_job(misfire_policy=policy)
        retry = make_trigger(job, "retrying", scheduled_for=factories.now() - 2 * HOUR)
        dispatch()
        assert state_of(retry) == ("queued", "")

    @pytest.mark.parametrize("policy", ["skip", "fire_once"])
    def test_never_skips_a_retry_whose_message_was_lost(self, policy: str) -> None:
        job = make_job(misfire_policy=policy, overlap_policy="skip")
        retry = make_trigger(job, "queued", scheduled_for=factories.now() - 2 * HOUR, attempt_count=1)
        execution.hand_back([factories.claim_token(retry)])
        make_trigger(job, "retrying", due_at=factories.now() + HOUR)
        dispatch()
        assert state_of(retry) == ("queued", "")

    def test_counts_the_grace_from_when_jitter_let_it_run(self) -> None:
        job = make_job(misfire_policy="skip", jitter=10 * MINUTE)
        moment = factories.now()
        on_time = make_trigger(job, scheduled_for=moment - 5 * MINUTE, due_at=moment - SECOND)
        missed = make_trigger(job, scheduled_for=moment - 6 * MINUTE, due_at=moment - 61 * SECOND)
        dispatch()
        assert (state_of(on_time), state_of(missed)) == (("queued", ""), ("skipped", "misfire"))

    def test_takes_grace_and_window_from_the_job(self, clock: Any) -> None:
        job = make_job(misfire_policy="fire_once", misfire_grace=HOUR, catchup_window=2 * HOUR)
        first, second = (make_trigger(job) for _ in range(2))
        clock(59 * MINUTE)
        dispatch(limit=1)
        assert states([first, second]).count("queued") == 1
        clock(121 * MINUTE)
        dispatch()
        assert {state_of(first), state_of(second)} == {("queued", ""), ("skipped", "misfire")}


class TestNextDue:
    def test_names_the_time_to_the_next_trigger(self) -> None:
        make_trigger()
        assert dispatch(limit=1).seconds_to_next is None
        make_trigger(due_at=factories.now() + 30 * SECOND, state="retrying")
        make_trigger(due_at=factories.now() + 10 * SECOND, held=True)
        seconds = dispatch().seconds_to_next
        assert seconds is not None
        assert 25 < seconds <= 30


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


class TestBlocked:
    def test_is_said_while_due_work_may_not_start(self) -> None:
        job = make_job(max_concurrent=1)
        make_trigger(job, "running")
        make_trigger(job)
        assert dispatch().blocked

    def test_is_not_said_of_an_empty_ledger(self) -> None:
        assert dispatch() == dispatch_store.Dispatched()


class TestVersion:
    def test_is_the_jobs_present_one_from_dispatch_on(self) -> None:
        trigger = make_trigger(make_job(version=2), job_version=1)
        dispatch()
        trigger.refresh_from_db()
        assert len(factories.claim(trigger)) == 1

"""Overlap policies (DESIGN §9), decided in the dispatch of one beat; races of two are in tests/races."""

from typing import Any

import pytest

from jobs.core.states import AttemptState, TriggerState
from jobs.models import Job, Trigger
from jobs.store import db, execution, lifecycle
from tests import factories
from tests.factories import (
    HOUR,
    MINUTE,
    dispatch,
    make_attempt,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
    state_of,
    states,
)

pytestmark = pytest.mark.django_db


def end(trigger: Trigger, state: str = "succeeded") -> None:
    Trigger.objects.filter(id=trigger.id).update(state=state)


def queued_ids() -> list[Any]:
    return [item.id for item in dispatch().queued]


class TestQueue:
    def test_runs_firings_one_after_another_in_order(self) -> None:
        job = make_job(overlap_policy="queue")
        triggers = make_triggers(job, 3)
        for trigger in triggers:
            assert queued_ids() == [trigger.id]
            assert queued_ids() == []
            end(trigger)
        assert states(triggers) == ["succeeded"] * 3

    def test_waits_for_a_retry_of_the_earlier_one(self) -> None:
        job = make_job(overlap_policy="queue")
        retry = make_trigger(job, "retrying", due_at=factories.now() + HOUR)
        later = make_trigger(job)
        assert queued_ids() == []
        assert (row(later)["held"], row(later)["parked"]) == (True, True)
        end(retry)
        assert queued_ids() == [later.id]

    def test_keeps_what_waits_out_of_the_way_of_other_jobs(self) -> None:
        busy = make_job(overlap_policy="queue")
        make_trigger(busy, "running")
        make_triggers(busy, 20)
        other = make_trigger(make_job(busy.tenant))
        assert [item.id for item in dispatch(limit=5).queued] == [other.id]

    def test_shows_what_waited_again_when_the_job_is_resumed(self) -> None:
        job = make_job(overlap_policy="queue")
        running = make_trigger(job, "running")
        waiting = make_trigger(job)
        dispatch()
        lifecycle.hold(job_ids=[job.id], held=True)
        lifecycle.hold(job_ids=[job.id], held=False)
        assert (row(waiting)["held"], row(waiting)["parked"]) == (False, False)
        end(running)
        assert queued_ids() == [waiting.id]

    def test_does_not_release_what_a_paused_job_holds(self) -> None:
        job = make_job(overlap_policy="queue")
        running = make_trigger(job, "running")
        waiting = make_trigger(job)
        dispatch()
        Job.objects.filter(id=job.id).update(status="paused")
        end(running)
        assert queued_ids() == []
        assert row(waiting)["held"]


class TestCollapse:
    def test_lets_the_newest_wait_and_collapses_those_before_it(self) -> None:
        job = make_job(overlap_policy="collapse")
        running = make_trigger(job, "running")
        first = make_trigger(job)
        dispatch()
        second, third = make_triggers(job, 2, scheduled_for=factories.now())
        dispatch()
        assert [state_of(trigger) for trigger in (first, second, third)] == [
            ("skipped", "collapsed"),
            ("skipped", "collapsed"),
            ("pending", ""),
        ]
        end(running)
        assert queued_ids() == [third.id]

    def test_runs_the_oldest_and_keeps_the_newest_of_those_due_together(self) -> None:
        job = make_job(overlap_policy="collapse")
        triggers = make_triggers(job, 4)
        assert queued_ids() == [triggers[0].id]
        assert [state_of(trigger) for trigger in triggers[1:]] == [("skipped", "collapsed")] * 2 + [
            ("pending", "")
        ]

    def test_collapses_nothing_that_somebody_asked_for(self) -> None:
        job = make_job(overlap_policy="collapse")
        make_trigger(job, "running")
        wanted = make_trigger(job, origin="run_now")
        dispatch()
        make_trigger(job, scheduled_for=factories.now())
        dispatch()
        assert state_of(wanted) == ("pending", "")


class TestReplace:
    def test_stops_the_running_one_then_starts(self) -> None:
        job = make_job(overlap_policy="replace")
        running = make_trigger(job, "running")
        newer = make_trigger(job)
        assert queued_ids() == []
        assert (row(running)["cancel_requested"], row(running)["cancel_reason"]) == (True, "preempted")
        attempt = make_attempt(running)
        execution.finish([factories.finish_of(running, attempt, "cancelled")])
        assert state_of(running) == ("cancelled", "preempted")
        assert queued_ids() == [newer.id]

    def test_preempts_what_fails_instead_of_retrying_it(self) -> None:
        job = make_job(overlap_policy="replace")
        running = make_trigger(job, "running")
        make_trigger(job)
        dispatch()
        execution.finish([factories.finish_of(running, make_attempt(running), "retrying")])
        assert state_of(running) == ("cancelled", "preempted")

    @pytest.mark.parametrize("state", ["queued", "retrying"])
    def test_supersedes_what_has_not_started(self, state: str) -> None:
        job = make_job(overlap_policy="replace")
        waiting = make_trigger(job, state, due_at=factories.now() + MINUTE)
        newer = make_trigger(job)
        dispatch()
        assert state_of(waiting) == ("cancelled", "superseded")
        assert queued_ids() == [newer.id]

    def test_runs_only_the_newest_of_those_due_together(self) -> None:
        job = make_job(overlap_policy="replace")
        triggers = make_triggers(job, 3)
        assert queued_ids() == [triggers[2].id]
        assert [state_of(trigger) for trigger in triggers[:2]] == [("cancelled", "superseded")] * 2

    def test_a_newer_one_takes_the_place_of_the_one_that_waits(self) -> None:
        job = make_job(overlap_policy="replace")
        make_trigger(job, "running")
        first = make_trigger(job)
        dispatch()
        second = make_trigger(job, scheduled_for=factories.now())
        dispatch()
        assert state_of(first) == ("cancelled", "superseded")
        assert state_of(second) == ("pending", "")


class TestRunBeside:
    """A run now that ignores overlap starts beside the others of its job, and they see it as any other."""

    @pytest.mark.parametrize("policy", ["skip", "queue", "collapse", "replace", "allow"])
    def test_starts_beside_one_that_runs(self, policy: str) -> None:
        job = make_job(overlap_policy=policy, max_concurrent=1)
        running = make_trigger(job, "running")
        plain, beside = make_trigger(job, origin="run_now"), make_trigger(job, origin="run_beside")
        assert queued_ids() == [beside.id]
        assert states([running, plain]) == ["running", "pending"]
        assert not row(running)["cancel_requested"]

    @pytest.mark.parametrize(("policy", "state"), [("skip", "skipped"), ("queue", "pending")])
    def test_counts_for_the_next_firing(self, policy: str, state: str) -> None:
        job = make_job(overlap_policy=policy)
        make_trigger(job, "running", origin="run_beside")
        firing = make_trigger(job)
        assert queued_ids() == []
        assert state_of(firing)[0] == state

    def test_is_tried_again_beside_the_others(self) -> None:
        job = make_job()
        make_trigger(job, "running")
        retry = make_trigger(job, "retrying", origin="run_beside", attempt_count=1)
        assert queued_ids() == [retry.id]

    def test_waits_for_its_concurrency_key(self) -> None:
        job = make_job(concurrency_key="db", max_concurrent=1)
        holder = make_trigger(job, "running", concurrency_key="db")
        beside = make_trigger(job, origin="run_beside")
        assert queued_ids() == []
        end(holder)
        assert queued_ids() == [beside.id]

    def test_waits_for_its_tenants_cap(self) -> None:
        job = make_job(make_tenant(max_in_flight=1))
        make_trigger(job, "running")
        make_trigger(job, origin="run_beside")
        assert queued_ids() == []


class TestAJobThatMayFillItsTenant:
    """Its own triggers need not be counted: no more of them start than its tenant's cap lets start."""

    @pytest.mark.parametrize("key", ["", "db"])
    def test_starts_up_to_that_cap(self, key: str) -> None:
        job = make_job(make_tenant(max_in_flight=3), max_concurrent=3, concurrency_key=key)
        make_trigger(job, "running", concurrency_key=key)
        first, second, _ = make_triggers(job, 3, concurrency_key=key)
        assert queued_ids() == [first.id, second.id]
        assert queued_ids() == []

    def test_starts_none_beside_others_where_one_must_run_alone(self) -> None:
        tenant = make_tenant(max_in_flight=9)
        job, late = (make_job(tenant, max_concurrent=9, misfire_policy=p) for p in ("fire_all", "backfill"))
        make_trigger(job, "running")
        make_trigger(job, origin="backfill")
        make_trigger(late, "running")
        make_trigger(late, scheduled_for=factories.now() - 10 * MINUTE)
        assert queued_ids() == []

    def test_is_not_counted(self) -> None:
        tenant = make_tenant(max_in_flight=3)
        jobs = [make_job(tenant, max_concurrent=count, concurrency_key="db") for count in (2, 3)]
        for job in jobs:
            make_trigger(job, "running", concurrency_key="db")
        rows = db.queries("dispatch")["facts"](
            job_ids=[job.id for job in jobs],
            due_ats=[None, None],
            jitters=[None, None],
            counts=[False, False],
        )
        assert [(each.in_flight, each.key_in_flight) for each in rows] == [(1, 2), (0, 0)]


class TestCatchUp:
    """A firing that runs late by its policy waits for its turn and is never skipped."""

    @pytest.mark.parametrize("policy", ["skip", "queue", "collapse"])
    @pytest.mark.parametrize("origin", ["catchup", "backfill"])
    def test_runs_one_at_a_time(self, policy: str, origin: str) -> None:
        job = make_job(overlap_policy=policy)
        late = make_triggers(job, 3, origin=origin)
        for trigger in late:
            assert queued_ids() == [trigger.id]
            assert queued_ids() == []
            end(trigger)

    def test_of_a_backfill_policy_runs_the_newest_up_to_max_catchup_in_order(self) -> None:
        job = make_job(misfire_policy="backfill", max_catchup=2)
        moment = factories.now()
        firings = [make_trigger(job, scheduled_for=moment - age * MINUTE) for age in (90, 30, 20, 10)]
        assert queued_ids() == [firings[2].id]
        assert [state_of(trigger) for trigger in firings] == [
            ("skipped", "misfire"),
            ("skipped", "misfire"),
            ("queued", ""),
            ("pending", ""),
        ]
        end(firings[2])
        assert queued_ids() == [firings[3].id]

    def test_fire_all_waits_where_the_job_forbids_overlap(self) -> None:
        job = make_job(misfire_policy="fire_all", overlap_policy="skip")
        moment = factories.now()
        firings = [make_trigger(job, scheduled_for=moment - age * MINUTE) for age in (30, 20, 10)]
        for firing in firings:
            assert queued_ids() == [firing.id]
            end(firing)


class TestAttemptStates:
    def test_keep_the_wish_that_ended_them(self) -> None:
        job = make_job()
        running = make_trigger(job, "running")
        lifecycle.cancel_jobs(job_ids=[job.id])
        execution.finish([factories.finish_of(running, make_attempt(running), "cancelled")])
        assert state_of(running) == (TriggerState.CANCELLED, "job_cancelled")
        assert [attempt.state for attempt in factories.attempts(running)] == [AttemptState.CANCELLED]

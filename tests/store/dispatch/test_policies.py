"""Dispatch by a job's policies: firings that overlap, and firings that were missed."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store import execution
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

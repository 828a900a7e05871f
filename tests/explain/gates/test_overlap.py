"""Gates between firings that must not run beside each other: of one job, or of one concurrency key."""

from typing import Any

from jobs.store import execution
from tests.explain.asking import blocking, gate, is_dispatched, passed
from tests.factories import (
    HOUR,
    SECOND,
    claim,
    dispatch,
    finish_of,
    make_job,
    make_running,
    make_tenant,
    make_trigger,
    now,
    state_of,
)


class TestOverlap:
    def test_opens_when_the_others_of_its_job_have_ended(self) -> None:
        job = make_job(overlap_policy="queue")
        other, attempt = make_running(job)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert gate(trigger, "overlap").blockers == (other.id,)
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["overlap"]  # parked by now
        execution.finish([finish_of(other, attempt)])
        passed(trigger)

    def test_allows_as_many_as_may_run_at_once(self) -> None:
        job = make_job(overlap_policy="allow", max_concurrent=2)
        others = [make_running(job) for _ in range(2)]
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert (gate(trigger, "overlap").used, gate(trigger, "overlap").limit) == (2, 2)
        assert not is_dispatched(trigger)
        execution.finish([finish_of(*others[0])])
        passed(trigger)

    def test_is_shut_beside_its_tenants_cap_where_both_are_reached(self) -> None:
        job = make_job(
            make_tenant(max_in_flight=2), overlap_policy="allow", max_concurrent=2, concurrency_key="db"
        )
        others = [make_running(job, concurrency_key="db") for _ in range(2)]
        trigger = make_trigger(job, concurrency_key="db")
        assert set(blocking(trigger)) == {"overlap", "concurrency_key", "tenant_cap"}
        assert not is_dispatched(trigger)
        execution.finish([finish_of(*others[0])])
        passed(trigger)

    def test_shuts_for_good_where_the_policy_skips(self) -> None:
        job = make_job(overlap_policy="skip")
        make_trigger(job, "retrying", due_at=now() + HOUR)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert "it is skipped" in gate(trigger, "overlap").detail
        assert not is_dispatched(trigger)
        assert state_of(trigger) == ("skipped", "overlap")

    def test_of_replace_opens_when_the_others_have_stopped(self) -> None:
        job = make_job(overlap_policy="replace")
        other, attempt = make_running(job)
        trigger = make_trigger(job)
        assert blocking(trigger) == ["overlap"]
        assert not is_dispatched(trigger)
        assert "asked to" in gate(trigger, "overlap").detail
        execution.finish([finish_of(other, attempt, "cancelled")])
        passed(trigger)

    def test_of_collapse_waits_unless_a_newer_one_is_due(self) -> None:
        job = make_job(overlap_policy="collapse")
        other, attempt = make_running(job)
        older, newer = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        assert "a newer one that is due runs in its place" in gate(older, "overlap").detail
        assert blocking(newer) == ["overlap"]
        assert not is_dispatched(newer)
        assert state_of(older) == ("skipped", "collapsed")
        execution.finish([finish_of(other, attempt)])
        passed(newer)

    def test_lets_the_earlier_ones_of_its_job_go_first(self) -> None:
        job = make_job(overlap_policy="queue")
        early, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        assert blocking(early) == []
        assert blocking(late) == ["overlap"]
        assert is_dispatched(early)
        assert state_of(late) == ("pending", "")

    def test_lets_those_that_were_parked_before_it_go_first(self) -> None:
        job = make_job(overlap_policy="allow", max_concurrent=2)
        make_running(job)
        other, attempt = make_running(job)
        early, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        dispatch()
        execution.finish([finish_of(other, attempt)])
        assert blocking(late) == ["overlap"]
        assert "1 earlier one of the job wait" in gate(late, "overlap").detail
        passed(early)

    def test_of_the_default_policies_knows_that_one_missed_firing_goes_first(self) -> None:
        job = make_job(overlap_policy="skip", misfire_policy="fire_once")
        missed, late = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (90, 30))
        assert (blocking(missed), blocking(late)) == ([], ["overlap"])
        assert is_dispatched(missed)
        assert state_of(late) == ("skipped", "overlap")


class TestConcurrencyKey:
    def test_opens_when_what_holds_the_key_has_ended(self) -> None:
        tenant = make_tenant()
        first, second = (make_job(tenant, max_concurrent=1, concurrency_key="db") for _ in range(2))
        holder = make_trigger(first)
        dispatch()
        trigger = make_trigger(second)
        assert blocking(trigger) == ["concurrency_key"]
        assert gate(trigger, "concurrency_key").blockers == (holder.id,)
        assert not is_dispatched(trigger)
        assert blocking(trigger) == ["concurrency_key"]  # parked by now
        holder.refresh_from_db()
        [attempt] = claim(holder)
        execution.finish([finish_of(holder, make_attempt_of(attempt))])
        passed(trigger)

    def test_of_another_tenant_is_another_key(self) -> None:
        make_trigger(make_job(max_concurrent=1, concurrency_key="db"))
        dispatch()
        passed(make_trigger(make_job(max_concurrent=1, concurrency_key="db")))


def make_attempt_of(claimed: Any) -> Any:
    """The attributes that ``finish_of`` needs of an attempt, from a row of ``claim``."""

    class Attempt:
        id = claimed.attempt_id
        started_at = claimed.attempt_started_at

    return Attempt

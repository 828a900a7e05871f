"""The judge, fed histories in which a promise about executions or about time is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.history import TenantMade
from tests.chaos.histories import (
    a_fault,
    a_job,
    a_run,
    delivered_at,
    executed,
    firing,
    judged,
    kinds,
    without,
)

JOB = a_job()


def again(job=JOB, number=2, *, late=5.0, fence=2, attempt=2):
    """A second execution of a firing."""
    return executed(job, firing(number), late=late, fence=fence, attempt=attempt)


class TestRepeated:
    def test_catches_a_second_execution_in_calm(self):
        assert kinds([*a_run(JOB), *again()]) == {"executed twice"}

    def test_excuses_what_was_in_flight_when_a_worker_died(self):
        verdict = judged([*a_run(JOB, more=a_fault(1, 20.1, 21)), *again()])
        assert verdict.passed, verdict.breaches
        assert [(each.repeated, each.in_flight) for each in verdict.figures] == [(0, 0), (1, 1)]

    def test_catches_what_had_been_done_long_before(self):
        assert kinds([*a_run(JOB, more=a_fault(1, 25, 26)), *again(late=10)]) == {"executed twice"}

    @pytest.mark.parametrize("number", [1, 4, 5, 6, 9])
    def test_catches_what_began_after_the_strike_however_long_it_lasts(self, number):
        assert kinds([*a_run(JOB, more=a_fault(number, 19, 24)), *again()]) == {"executed twice"}

    @pytest.mark.parametrize(
        ("healed", "resets", "passes"), [(20.1, True, True), (20.1, False, False), (23, True, False)]
    )
    def test_excuses_what_was_in_flight_when_a_heal_reset_its_link(self, healed, resets, passes):
        records = [*a_run(JOB, more=a_fault(9, 10, healed, resets=resets)), *again()]
        assert ("executed twice" not in kinds(records)) == passes
        # A strike accounts for one more execution, whichever stretch of it.
        assert "executed twice" in kinds([*records, *again(late=8, fence=3, attempt=3)])

    def test_catches_a_third_execution_in_one_fault(self):
        more = a_fault(5, 20.01, 40)
        records = [*a_run(JOB, more=more), *again(), *again(late=8, fence=3, attempt=3)]
        assert "executed twice" in kinds(records)

    @pytest.mark.parametrize("number", [2, 8])
    def test_excuses_nothing_when_a_leader_dies_or_redis_forgets(self, number):
        assert kinds([*a_run(JOB, more=a_fault(number, 20.1, 21)), *again()]) == {"executed twice"}

    @pytest.mark.parametrize(
        ("number", "claimed", "passes"), [(4, 0.1, True), (4, 0.7, False), (1, 0.1, False)]
    )
    def test_excuses_what_was_claimed_by_a_worker_that_froze_before_its_request_left(
        self, number, claimed, passes
    ):
        """The request has its old fence and comes after that of the worker that took over; a dead worker sends none."""
        records = without(a_run(JOB, more=a_fault(number, 20.05, 30)), delivered_at(firing(2)))
        records += again(late=6.0, fence=2, attempt=2)
        records += executed(JOB, firing(2), late=10.1, fence=1, claimed=claimed)
        assert ("executed twice" not in kinds(records)) == passes

    def test_never_excuses_it_where_at_most_once_was_asked_for(self):
        job = a_job(delivery="at_most_once")
        assert kinds([*a_run(job, more=a_fault(1, 20.1, 21)), *again(job)]) == {"executed twice"}

    def test_takes_a_retry_for_a_retry(self):
        job = a_job(target="flaky", failures=1)
        records = without(a_run(job), delivered_at(firing(2)))
        records += executed(job, firing(2), status=503)
        assert judged([*records, *again(job)]).passed

    @pytest.mark.parametrize(("number", "passes"), [(14, True), (8, False), (None, False)])
    def test_counts_no_attempt_that_ended_with_its_worker_before_the_request_left(self, number, passes):
        job = a_job(target="failing", max_attempts=2, failures=0)
        more = a_fault(number, 20.01, 21) if number else []
        records = without(a_run(job, more=more), delivered_at(firing(2)))
        records += executed(job, firing(2), late=5, status=500, fence=2, attempt=2)
        records += executed(job, firing(2), late=6, status=500, fence=3, attempt=3)
        assert ("executed twice" not in kinds(records)) == passes
        # And the budget still allows two attempts.
        assert "executed twice" in kinds([*records, *again(job, late=7, fence=4, attempt=4)])

    @pytest.mark.parametrize(("number", "passes"), [(14, True), (8, False), (None, False)])
    def test_counts_no_attempt_that_was_answered_and_may_have_ended_with_its_worker(self, number, passes):
        job = a_job(target="failing", max_attempts=2, failures=0)
        more = a_fault(number, 20.35, 21) if number else []
        records = without(a_run(job, more=more), delivered_at(firing(2)))
        for attempt, late in enumerate((0.05, 5, 6), 1):
            records += executed(job, firing(2), late=late, status=500, fence=attempt, attempt=attempt)
        assert ("executed twice" not in kinds(records)) == passes
        assert "executed twice" in kinds([*records, *again(job, late=7, fence=4, attempt=4)])

    def test_catches_an_attempt_beyond_the_budget(self):
        job = a_job(target="failing", max_attempts=1, failures=0)
        records = without(a_run(job), delivered_at(firing(2)))
        records += executed(job, firing(2), status=500)
        assert "executed twice" in kinds([*records, *again(job)])


class TestPoison:
    """Two jobs may kill six workers in all, and each of these may have claimed the same trigger."""

    def a_run_with(self, *kills):
        """Workers are killed so many seconds after the firing; between the kills nothing else happened to the run."""
        killer = a_job("killer", target="poison", schedule={"type": "once", "run_at": "2027-01-01T00:00:00Z"})
        crashes = [
            executed(killer, firing(2), late=late, fence=n, attempt=n) for n, late in enumerate(kills, 1)
        ]
        return a_run(
            JOB, more=[killer, *a_fault(16, 20.01, 50), *(line for pair in crashes for line in pair)]
        )

    def found(self, records):
        return {breach.kind for breach in judged(records).breaches if breach.job != "killer"}

    def test_may_find_the_same_trigger_in_hand_as_often_as_it_kills(self):
        records = self.a_run_with(0.05, *(5.05 + n for n in range(5)))
        for n in range(6):
            records += again(late=5.0 + n, fence=2 + n, attempt=2 + n)
        assert "executed twice" not in self.found(records)
        assert "executed twice" in self.found([*records, *again(late=11.0, fence=9, attempt=9)])

    def test_is_to_blame_for_nothing_between_two_kills(self):
        records = self.a_run_with(5.0, 10.0)
        assert "executed twice" in self.found([*records, *again(late=8.0)])

    def test_of_one_worker_is_to_blame_once(self):
        records = [*self.a_run_with(0.05), *again(late=5.0)]
        assert "executed twice" not in self.found(records)
        assert "executed twice" in self.found([*records, *again(late=10.0, fence=3, attempt=3)])


class TestFences:
    def test_catches_one_that_goes_backwards(self):
        records = without(a_run(JOB, more=a_fault(1, 20.1, 21)), delivered_at(firing(2)))
        records += executed(JOB, firing(2), fence=3)
        assert kinds([*records, *again(fence=2)]) == {"fence"}

    def test_excuses_that_of_a_worker_which_was_frozen(self):
        records = without(a_run(JOB, more=a_fault(4, 20.01, 24)), delivered_at(firing(2)))
        records += executed(JOB, firing(2), fence=3)
        assert judged([*records, *again(fence=2)]).passed

    def test_catches_one_that_comes_twice_whatever_the_fault(self):
        assert "fence" in kinds([*a_run(JOB, more=a_fault(4, 20.01, 24)), *again(fence=1)])


class TestOverlap:
    @pytest.mark.parametrize("policy", ["skip", "queue", "collapse", "replace"])
    def test_catches_two_at_once_where_one_is_allowed(self, policy):
        assert kinds(a_run(a_job(overlap_policy=policy, seconds=10.5))) == {"overlap"}

    def test_lets_as_many_be_as_are_allowed(self):
        assert judged(a_run(a_job(seconds=10.5, max_concurrent=2))).passed
        assert "overlap" in kinds(a_run(a_job(seconds=20.5, max_concurrent=2)))

    def test_catches_it_after_a_worker_died(self):
        job = a_job(overlap_policy="skip", seconds=10.5)
        assert kinds(a_run(job, more=a_fault(1, 25, 26))) == {"overlap"}

    def test_excuses_a_worker_that_was_cut_off(self):
        job = a_job(overlap_policy="skip", seconds=10.5)
        assert judged(a_run(job, more=a_fault(9, 15, 50))).passed


class TestQuotas:
    def test_catches_a_tenant_beyond_its_cap(self):
        jobs = [a_job(name, seconds=1) for name in ("a", "b", "c")]
        records = without(a_run(*jobs), lambda line: isinstance(line, TenantMade))
        assert kinds([*records, TenantMade(slug="acme", max_in_flight=2)]) == {"quota"}
        assert judged([*records, TenantMade(slug="acme", max_in_flight=3)]).passed


class TestTime:
    def late(self, seconds, *, number=3, fault=()):
        records = without(a_run(JOB, more=list(fault)), delivered_at(firing(number)))
        return [*records, *executed(JOB, firing(number), late=seconds)]

    def test_catches_a_late_start_in_calm(self):
        assert judged(self.late(1.9)).passed
        assert kinds(self.late(2.1)) == {"late"}

    def test_bounds_how_late_a_fault_may_make_it(self):
        fault = a_fault(2, 29, 29.5)
        assert judged(self.late(15, fault=fault)).passed
        assert kinds(self.late(21, fault=fault)) == {"late"}

    def test_lays_a_firing_due_just_before_a_fault_to_that_fault(self):
        faults = [*a_fault(10, 12, 13), *a_fault(5, 30.5, 45)]
        verdict = judged(self.late(15, fault=faults))
        assert verdict.passed, verdict.breaches
        assert [each.late for each in verdict.figures] == [0, 0, 1]

    def test_lays_nothing_to_a_fault_that_was_late_before_it(self):
        verdict = judged(self.late(9, fault=a_fault(5, 35, 45)))
        assert [breach.kind for breach in verdict.breaches] == ["late"]
        assert [each.late for each in verdict.figures] == [1, 0]

    def test_catches_a_system_that_does_not_resume(self):
        records = a_run(JOB, closed=150)
        for n in range(3, 13):
            records = without(records, delivered_at(firing(n)))
            records += executed(JOB, firing(n), late=10)
        assert "resumed late" in kinds([*records, *a_fault(9, 25, 30)])

    def test_says_how_long_it_took(self):
        verdict = judged(self.late(5, fault=a_fault(5, 28, 30)))
        assert verdict.figures[1].resumed_seconds == pytest.approx(5, abs=0.01)

    def test_says_nothing_of_what_the_next_fault_held_up(self):
        verdict = judged(self.late(5, fault=[*a_fault(5, 22, 25), *a_fault(6, 31, 34)]))
        assert [each.resumed_seconds for each in verdict.figures[1:]] == [0, pytest.approx(1, abs=0.01)]

    def test_bounds_how_soon_what_was_cut_short_is_taken_up(self):
        records = without(a_run(JOB, more=a_fault(1, 10.3, 12)), delivered_at(firing(1)))
        records += executed(JOB, firing(1), sent=False)
        assert judged([*records, *again(number=1, late=33)]).passed
        assert kinds([*records, *again(number=1, late=36)]) == {"reclaimed late"}

    def test_counts_from_a_later_strike_where_that_took_a_message(self):
        def kinds_of(late: float, *, fence: int, strike: float = 40, number: int = 1) -> set[str]:
            strikes = [*a_fault(1, 10.3, 12), *a_fault(number, strike, strike + 1)]
            records = without(a_run(JOB, more=strikes, closed=150), delivered_at(firing(1)))
            records += executed(JOB, firing(1), sent=False)
            return kinds([*records, *again(number=1, late=late, fence=fence)])

        assert kinds_of(54, fence=3) == set()
        assert kinds_of(54, fence=2) == {"reclaimed late"}  # no message was sent in between
        assert kinds_of(54, fence=3, strike=70) == {"reclaimed late"}
        assert kinds_of(54, fence=3, number=9) == {"reclaimed late"}  # a fault that takes none
        assert kinds_of(68, fence=3) == {"reclaimed late"}
        assert kinds_of(73, fence=3, strike=75) == {"reclaimed late"}


class TestAnyHistory:
    @given(
        periods=st.lists(st.integers(3, 20), min_size=1, max_size=4),
        late=st.floats(0, 0.09),
        victim=st.integers(0, 10_000),
    )
    def test_passes_whole_and_fails_with_any_one_firing_torn_out_or_repeated(self, periods, late, victim):
        jobs = [a_job(f"job{n}", every=every) for n, every in enumerate(periods)]
        records = a_run(*jobs)
        assert judged(records).passed
        starts = [line for line in records if hasattr(line, "fence")]
        chosen = starts[victim % len(starts)]
        assert kinds(without(records, lambda line: line is chosen)) == {"lost"}
        job = next(job for job in jobs if job.job_id == chosen.job_id)
        twice = executed(job, chosen.scheduled_for, late=1 + late, fence=2, attempt=2)
        assert kinds([*records, *twice]) == {"executed twice"}

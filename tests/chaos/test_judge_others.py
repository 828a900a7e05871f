"""The judge, fed faults that name the tenants they touch: no other tenant may be late by them, nor excused by them."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.history import Ledger, Record
from chaos.judge.limits import OF_FAULT
from tests.chaos.histories import (
    CLOSED,
    T0,
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
VICTIM = a_job("victim", tenant="victim")
LOCK: dict[str, Any] = {"affects": ["victim"]}


def of(job_id: str, number: int) -> Callable[[Record], bool]:
    """Whether a line is the start of that job's firing."""
    return lambda line: delivered_at(firing(number))(line) and getattr(line, "job_id", "") == job_id


def late(job, seconds: float, *, number: int = 2, more: list[Record]) -> list[Record]:
    """Both jobs' firings on time, except one of ``job``."""
    records = without(a_run(JOB, VICTIM, more=more), of(job.job_id, number))
    return [*records, *executed(job, firing(number), late=seconds)]


class TestWhoIsNotTouched:
    def test_is_on_time_while_another_waits_for_the_heal(self):
        verdict = judged(late(VICTIM, 25, more=a_fault(20, 19, 45, **LOCK)))
        assert verdict.passed, verdict.breaches

    def test_is_not_late_by_more_than_two_seconds(self):
        assert judged(late(JOB, 1.9, more=a_fault(20, 19, 45, **LOCK))).passed
        verdict = judged(late(JOB, 2.1, more=a_fault(20, 19, 45, **LOCK)))
        [breach] = verdict.breaches
        assert (breach.kind, breach.job) == ("shared fate", "job")
        assert "1 of " in breach.detail
        assert "2.1 s, 2 s allowed" in breach.detail

    def test_is_late_by_a_fault_that_struck_before_it_was_late(self):
        records = late(JOB, 3, more=a_fault(20, 21, 45, **LOCK))
        assert kinds(records) == {"shared fate"}

    def test_may_wait_for_another_leader_where_there_must_be_one(self):
        lease = a_fault(20, 19, 45, affects=[], leader=True)
        assert judged(late(JOB, 14.9, more=lease)).passed
        assert kinds(late(JOB, 15.1, more=lease)) == {"shared fate"}

    def test_is_everybody_when_nobodys_rows_are_touched(self):
        assert kinds(late(VICTIM, 2.1, more=a_fault(21, 19, 45, affects=[]))) == {"shared fate"}

    def test_is_nobody_when_the_fault_names_none(self):
        assert judged(late(JOB, 9, more=a_fault(22, 19, 45))).passed
        assert kinds(late(JOB, 11, more=a_fault(22, 19, 45))) == {"late"}

    def test_was_touched_by_the_strike_before_as_long_as_that_may_take_to_be_mended(self):
        touched = a_fault(20, 11, 12, **LOCK)
        soon = [*touched, *a_fault(20, 19, 45, affects=["other"])]
        assert judged(late(VICTIM, 9, more=soon)).passed
        assert kinds(late(VICTIM, 9, more=soon[2:])) == {"shared fate"}

    @pytest.mark.parametrize(("seconds", "passes"), [(0.4, True), (0.6, False)])
    def test_is_prompt_beside_a_crowd_where_it_is_critical(self, seconds, passes):
        critical = a_job("critical", priority="critical")
        records = without(a_run(critical, more=a_fault(26, 19, 45, affects=[])), of("critical", 2))
        assert judged([*records, *executed(critical, firing(2), late=seconds)]).passed == passes
        common = without(a_run(JOB, more=a_fault(26, 19, 45, affects=[])), of("job", 2))
        assert judged([*common, *executed(JOB, firing(2), late=seconds)]).passed


class TestAFaultThatNamesWhomItTouches:
    """It excuses nothing of the other tenants."""

    def missed(self, job) -> list[Record]:
        """One firing that was skipped as missed."""
        records = without(a_run(job, more=a_fault(20, 19, 45, **LOCK)), of(job.job_id, 2))
        states = [("skipped", "coalesced") if n == 2 else ("succeeded", "") for n in range(1, 6)]
        ledger = [
            Ledger(
                at=T0 + CLOSED, reading=1, job_id=job.job_id, trigger_id=f"{job.job_id}@{firing(n).isoformat()}",
                scheduled_for=firing(n), state=state, reason=reason, fence=1, attempts=1,
            )
            for n, (state, reason) in enumerate(states, start=1)
        ]  # fmt: skip
        return [*records, *ledger]

    def test_does_not_excuse_that_they_were_missed(self):
        assert kinds(self.missed(a_job(misfire_policy="fire_once"))) == {"lost"}
        assert judged(self.missed(a_job("victim", tenant="victim", misfire_policy="fire_once"))).passed

    def test_does_not_excuse_that_they_were_executed_again(self):
        def again(job, fault: int, **facts: Any) -> set[str]:
            more = a_fault(fault, 20.05, 45, **{**LOCK, **facts})
            records = a_run(job, more=more)
            return kinds([*records, *executed(job, firing(2), late=9, attempt=2, fence=2)])

        assert again(JOB, 20) == {"executed twice"}
        assert again(VICTIM, 20) == set()
        assert again(VICTIM, 20, kills=False) == {"executed twice"}

        # A handler that ends its process cuts short all that ran beside it.
        assert again(JOB, 23) == set()
        assert again(JOB, 23, kills=False) == {"executed twice"}

    def test_does_not_excuse_that_two_were_at_work_at_once(self):
        def side_by_side(job) -> set[str]:
            records = without(a_run(job, more=a_fault(20, 19, 45, **LOCK)), of(job.job_id, 3))
            return kinds([*records, *executed(job, firing(3), late=0.0, seconds=15)])

        assert side_by_side(a_job(max_concurrent=1, seconds=1)) == {"overlap"}
        assert side_by_side(a_job("victim", tenant="victim", max_concurrent=1, seconds=1)) == set()

    def test_has_a_limit_for_those_it_touches(self):
        assert {number for number in OF_FAULT if number >= 20} >= set(range(20, 29))

"""The judge, fed histories in which a promise about firings is broken."""

from dataclasses import replace
from datetime import timedelta

import pytest

from chaos.history import Audited, Called, Died, Effect, Ended, Ledger, Range, Started
from tests.chaos.histories import (
    CLOSED,
    START,
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


def entry(job, at, state="succeeded", reason="", *, reading=1, trigger="", attempts=1):
    return Ledger(
        at=T0 + CLOSED, reading=reading, job_id=job.job_id, trigger_id=trigger or f"{job.job_id}@{at.isoformat()}",
        scheduled_for=at, state=state, reason=reason, fence=1, attempts=attempts,
    )  # fmt: skip


class TestASoundHistory:
    def test_passes(self):
        verdict = judged(a_run(a_job(), a_job("cron", schedule={"type": "cron", "cron": "*/7 * * * * ?"})))
        assert verdict.passed, verdict.breaches
        assert verdict.firings == 5 + 7

    def test_of_nothing_shows_nothing(self):
        assert not judged([]).passed

    def test_is_judged_alike_whatever_the_order_of_its_lines(self):
        records = without(a_run(a_job("a"), a_job("b")), delivered_at(firing(2)))
        assert judged(records).breaches == judged(records[::-1]).breaches != []

    def test_ends_when_the_log_was_read_whatever_came_meanwhile(self):
        records = a_run(JOB)
        assert judged([*records, *executed(JOB, firing(6), late=5)]).passed


class TestLost:
    def test_catches_a_firing_that_never_came(self):
        verdict = judged(without(a_run(JOB), delivered_at(firing(3))))
        assert [breach.kind for breach in verdict.breaches] == ["lost"]
        assert verdict.breaches[0].at == firing(3).timestamp()

    def test_catches_it_in_a_fault_as_well(self):
        records = without(a_run(JOB, more=a_fault(1, 25, 26)), delivered_at(firing(3)))
        assert kinds(records) == {"lost"}

    def test_catches_a_delivery_that_was_not_answered_and_not_repeated(self):
        records = without(a_run(JOB), lambda line: isinstance(line, Ended))
        assert kinds(records) == {"lost"}

    def test_catches_a_failed_attempt_that_was_not_retried(self):
        job = a_job(target="flaky", failures=1)
        records = without(a_run(job), delivered_at(firing(1)))
        assert kinds([*records, *executed(job, firing(1), status=503)]) == {"lost"}

    def test_does_not_require_what_falls_due_as_the_log_is_read(self):
        assert judged(without(a_run(JOB, closed=52), delivered_at(firing(5)))).passed

    @pytest.mark.parametrize("policy", ["skip", "collapse"])
    def test_lets_a_firing_be_dropped_while_another_is_under_way(self, policy):
        job = a_job(overlap_policy=policy, seconds=12)
        records = without(a_run(job), lambda line: getattr(line, "scheduled_for", 0) in map(firing, (2, 4)))
        verdict = judged(records)
        assert verdict.passed, verdict.breaches
        assert verdict.excused["dropped by its overlap policy"] == 2

    def test_catches_one_that_was_dropped_though_nothing_was_under_way(self):
        job = a_job(overlap_policy="skip", seconds=1)
        assert kinds(without(a_run(job), delivered_at(firing(3)))) == {"lost"}

    def test_lets_a_firing_wait_in_line_while_the_line_moves(self):
        job = a_job(overlap_policy="queue", every=5, seconds=4)
        line = without(a_run(job), lambda r: getattr(r, "scheduled_for", START) >= firing(5, every=5))
        # Each of the first four begins 15 s after the one before it; the fourth is at work as the log is read.
        line = [r for r in line if not isinstance(r, Started | Ended)]
        for n in range(1, 5):
            line += executed(job, firing(n, every=5), late=10.0 * n, seconds=4 if n < 4 else 8)
        assert judged([*line, *executed(job, firing(5, every=5), late=31)]).passed
        # A firing that was passed over is lost, however long the line.
        skipped = without(line, delivered_at(firing(3, every=5)))
        assert "lost" in kinds(skipped)

    def test_catches_one_that_the_ledger_buried_in_calm(self):
        records = without(a_run(JOB), delivered_at(firing(2)))
        ledger = [entry(JOB, firing(n), *(("dead", "lost") if n == 2 else ())) for n in range(1, 6)]
        assert kinds([*records, *ledger]) == {"lost"}

    def test_lets_at_most_once_lose_what_its_worker_held(self):
        job = a_job(delivery="at_most_once")
        records = without(a_run(job, more=a_fault(1, 30, 31)), delivered_at(firing(3)))
        assert judged(records).passed


class TestTheLedger:
    def test_is_to_know_every_firing(self):
        ledger = [entry(JOB, firing(n)) for n in (1, 2, 4, 5)]
        assert kinds([*a_run(JOB), *ledger]) == {"unrecorded"}

    def test_may_know_some_as_a_range(self):
        job = a_job(overlap_policy="skip", misfire_policy="fire_once")
        records = without(
            a_run(job, more=a_fault(5, 15, 35)),
            lambda line: getattr(line, "scheduled_for", 0) in map(firing, (2, 3)),
        )
        known = [entry(job, firing(n)) for n in (1, 4, 5)]
        gone = Range(job_id="job", from_at=firing(2), until_at=firing(3), count=2, reason="coalesced")
        assert judged([*records, *known, gone]).passed

    def test_is_to_end_every_firing(self):
        ledger = [entry(JOB, firing(n), "running" if n == 2 else "succeeded") for n in range(1, 6)]
        assert kinds([*a_run(JOB), *ledger]) == {"unfinished"}

    def test_is_to_end_it_once(self):
        ledger = [entry(JOB, firing(n)) for n in range(1, 6)]
        again = [entry(JOB, firing(n), "dead" if n == 2 else "succeeded", reading=2) for n in range(1, 6)]
        assert kinds([*a_run(JOB), *ledger, *again]) == {"second end"}

    def test_is_to_have_one_trigger_for_a_firing(self):
        ledger = [*(entry(JOB, firing(n)) for n in range(1, 6)), entry(JOB, firing(2), trigger="other")]
        assert kinds([*a_run(JOB), *ledger]) == {"doubled firing"}

    def test_is_to_pass_its_own_audit(self):
        assert kinds([*a_run(JOB), Audited(at=T0 + CLOSED, passed=False, says="1 missing")]) == {"audit"}


class TestDoubled:
    def test_catches_a_firing_with_two_triggers(self):
        again = executed(JOB, firing(2), late=0.2, trigger="another")
        assert "doubled firing" in kinds([*a_run(JOB), *again])

    def test_catches_it_in_a_fault_as_well(self):
        again = executed(JOB, firing(2), late=0.2, trigger="another")
        assert "doubled firing" in kinds([*a_run(JOB, more=a_fault(1, 19, 22)), *again])


class TestEarly:
    def test_catches_a_request_before_its_instant(self):
        records = without(a_run(JOB), delivered_at(firing(2)))
        assert kinds([*records, *executed(JOB, firing(2), late=-0.2)]) == {"early"}

    def test_catches_a_retry_before_its_back_off_was_over(self):
        job = a_job(target="flaky", failures=1, retry_seconds=2)
        records = without(a_run(job), delivered_at(firing(2)))
        tries = [*executed(job, firing(2), status=503), *executed(job, firing(2), attempt=2, fence=2, late=1)]
        assert kinds([*records, *tries]) == {"early"}


class TestPhantom:
    def test_catches_an_instant_no_schedule_names(self):
        assert kinds([*a_run(JOB), *executed(JOB, firing(2) + timedelta(seconds=1))]) == {"phantom"}

    def test_catches_a_job_nobody_made(self):
        assert kinds([*a_run(JOB), *executed(a_job("ghost"), firing(2))]) == {"phantom"}

    def test_catches_a_run_nobody_asked_for(self):
        [start, end] = executed(JOB, firing(2) + timedelta(seconds=1))
        assert kinds([*a_run(JOB), type(start)(**{**vars(start), "key": "job:1:run:1"}), end]) == {"phantom"}


class TestStops:
    PAUSE = Called(job_id="job", verb="pause", requested_at=T0 + 22, acknowledged_at=T0 + 23)
    RESUME = Called(job_id="job", verb="resume", requested_at=T0 + 42, acknowledged_at=T0 + 43)

    def test_catches_a_start_after_a_pause_was_acknowledged(self):
        assert kinds([*a_run(JOB), self.PAUSE]) == {"stopped"}

    def test_catches_it_in_a_fault_as_well(self):
        assert kinds([*a_run(JOB, more=a_fault(4, 22, 50)), self.PAUSE]) == {"stopped"}

    def test_catches_a_late_start_of_what_was_due_before(self):
        records = without(a_run(JOB), lambda line: getattr(line, "scheduled_for", START) > firing(1))
        late = executed(JOB, firing(2), late=10)
        assert "stopped" in kinds([*records, *late, self.PAUSE])

    def test_requires_what_falls_due_after_the_resume(self):
        between = without(a_run(JOB), lambda line: getattr(line, "scheduled_for", 0) in map(firing, (3, 4)))
        assert judged([*between, self.PAUSE, self.RESUME]).passed
        lost = without(between, delivered_at(firing(5)))
        assert kinds([*lost, self.PAUSE, self.RESUME]) == {"lost"}

    def test_requires_what_fell_due_long_enough_before(self):
        """As long as a firing may take: in calm two seconds and its work, in a fault as long as that may delay it."""
        job = a_job(seconds=3)
        before = without(a_run(job), lambda line: getattr(line, "scheduled_for", START) > firing(1))
        soon = Called(job_id="job", verb="pause", requested_at=T0 + 24, acknowledged_at=T0 + 24.1)
        later = replace(soon, requested_at=T0 + 28, acknowledged_at=T0 + 28.1)
        assert judged([*before, soon]).passed
        assert kinds([*before, later]) == {"lost"}
        assert kinds([*before, later, *a_fault(1, 15, 16)]) == set()
        assert kinds([*before, later, *a_fault(10, 15, 16)]) == {"lost"}

    def test_forbids_nothing_when_the_pause_was_not_acknowledged(self):
        unknown = Called(job_id="job", verb="pause", requested_at=T0 + 22)
        assert not judged([*a_run(JOB), unknown]).breaches


class TestPoison:
    JOB = a_job("killer", target="poison", schedule={"type": "immediate"})

    def test_is_to_be_buried_after_three_crashes(self):
        starts = [
            line
            for n in (1, 2, 3)
            for line in executed(self.JOB, START, late=n * 10, attempt=n, fence=n, sent=False)
        ]
        sound = [*a_run(JOB), self.JOB, *starts, entry(self.JOB, START, "dead", "poison")]
        sound += [entry(JOB, firing(n)) for n in range(1, 6)]
        assert judged(sound).passed, judged(sound).breaches
        fourth = executed(self.JOB, START, late=40, attempt=4, fence=4, sent=False)
        assert kinds([*sound, *fourth]) == {"poison"}


class TestEffects:
    JOB = a_job(target="once", delivery="exactly_once")

    def judged_with(self, *counts):
        effects = [
            Effect(job_id="job", scheduled_for=firing(n + 1), count=count) for n, count in enumerate(counts)
        ]
        return kinds([*a_run(self.JOB), *effects, *(entry(self.JOB, firing(n)) for n in range(1, 6))])

    def test_are_made_once(self):
        assert self.judged_with(1, 1, 1, 1, 1) == set()

    def test_are_caught_when_made_twice(self):
        assert self.judged_with(1, 2, 1, 1, 1) == {"effect"}

    def test_are_caught_when_missing(self):
        assert self.judged_with(1, 1, 1, 1) == {"effect"}


class TestProcesses:
    def test_catches_one_that_ended_by_itself(self):
        assert kinds([*a_run(JOB), Died(at=T0 + 5, process="worker1", code=1)]) == {"died"}

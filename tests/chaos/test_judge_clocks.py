"""The judge, fed strikes in which the database's clock stood apart: an instant is when that clock comes to it."""

from datetime import timedelta

from chaos.history import Called
from chaos.judge import Case
from chaos.judge.timing import lags
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
    kinds,
    without,
)

JOB = a_job(max_concurrent=9)
#: From 19 s to 25 s after the start; the job fires every ten seconds.
AHEAD = a_fault(27, 19, 25, clock_seconds=12)
BEHIND = a_fault(27, 19, 25, clock_seconds=-3600)


def moved(number: int, *, late: float, more) -> list:
    """Every firing on time, except one."""
    records = without(a_run(JOB, more=more), delivered_at(firing(number)))
    return [*records, *executed(JOB, firing(number), late=late)]


class TestAnInstant:
    def test_comes_sooner_by_a_clock_that_was_put_ahead_and_stays_come(self):
        case = Case(a_run(JOB, more=AHEAD))
        assert case.reached(firing(1)) == T0 + 10
        assert case.reached(firing(2)) == T0 + 19
        assert case.reached(firing(3)) == T0 + 19
        assert case.reached(firing(4)) == T0 + 40

    def test_comes_at_the_heal_by_a_clock_that_was_put_back(self):
        case = Case(a_run(JOB, more=BEHIND))
        assert case.reached(firing(1)) == T0 + 10
        assert case.reached(firing(2)) == T0 + 25
        assert case.reached(firing(3)) == T0 + 30


class TestAFiringByAClockThatWasSet:
    def test_is_not_early_where_its_instant_had_come(self):
        both = without(moved(2, late=-0.9, more=AHEAD), delivered_at(firing(3)))
        assert kinds([*both, *executed(JOB, firing(3), late=-10.9)]) == set()
        assert kinds(moved(4, late=-1, more=AHEAD)) == {"early"}

    def test_is_late_from_the_moment_its_instant_had_come(self):
        assert kinds(moved(2, late=5 + 19, more=BEHIND)) == set()
        assert kinds(moved(2, late=5 + 21, more=BEHIND)) == {"late"}

    def test_is_due_again_where_the_clock_showed_its_instant_only_for_a_moment(self):
        def fifth(*, late: float, clock_seconds: float) -> list:
            ahead = a_fault(27, 19, 25, clock_seconds=clock_seconds)
            records = without(moved(4, late=-20.5, more=ahead), delivered_at(firing(5)))
            return [*records, *executed(JOB, firing(5), late=late)]

        # Instant 5, at 50 s, is shown half a second, or three, before the clock is put back.
        assert kinds(fifth(late=1, clock_seconds=25.5)) == set()
        assert kinds(fifth(late=1, clock_seconds=28)) == {"late"}
        found = lags(Case(fifth(late=3, clock_seconds=25.5)), [])
        assert [round(lag.seconds, 3) for lag in found if lag.due_at == T0 + 50] == [3]

    def test_by_hand_is_due_when_it_is_asked_for_though_its_instant_had_come(self):
        asked = T0 + 28
        run = Called(
            job_id="job",
            verb="run",
            requested_at=asked,
            acknowledged_at=asked,
            scheduled_for=START + timedelta(seconds=28),
        )
        records = [*a_run(JOB, more=[*AHEAD, run]), *executed(JOB, run.scheduled_for, late=1)]
        assert [round(lag.seconds, 3) for lag in lags(Case(records), []) if lag.due_at == asked] == [1]

    def test_is_required_though_it_would_be_due_after_the_end(self):
        ahead = a_fault(27, 19, 25, clock_seconds=CLOSED)
        sooner = {n: executed(JOB, firing(n), late=-10.0 * n + 20) for n in range(2, 9)}
        records = a_run(JOB, more=ahead)
        for n, lines in sooner.items():
            records = [*without(records, delivered_at(firing(n))), *lines]
        assert kinds(records) == set()
        assert kinds(without(records, delivered_at(firing(8)))) == {"lost"}

    def test_may_come_before_the_call_that_stops_it(self):
        pause = Called(job_id="job", verb="pause", requested_at=T0 + 27, acknowledged_at=T0 + 28)
        both = without(
            moved(2, late=-0.9, more=[*AHEAD, pause]),
            lambda line: any(delivered_at(firing(n))(line) for n in (3, 4, 5)),
        )
        assert kinds([*both, *executed(JOB, firing(3), late=-10.9)]) == set()
        assert "stopped" in kinds([*both, *executed(JOB, firing(3), late=0.1)])

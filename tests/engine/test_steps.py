"""A step by itself: when it is due, how its failures are handled, and how it rests."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from jobs.engine.steps.step import FIRST_SECONDS, MAX_SECONDS, Step
from jobs.store.db import StatementFailed


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


def failing(error: Exception) -> Callable[[Any], bool]:
    def work(_: Any) -> bool:
        raise error

    return work


class TestStep:
    def test_is_due_at_each_turn_or_after_its_period(self, clock: Time) -> None:
        always = Step("a", lambda _: False, monotonic=clock)
        seldom = Step("b", lambda _: False, every=5.0, monotonic=clock)
        assert [always.turn(None), always.turn(None), seldom.turn(None), seldom.turn(None)] == [
            True,
            True,
            True,
            False,
        ]
        clock.now += 5.0
        assert seldom.turn(None)

    def test_comes_back_sooner_while_there_is_more(self, clock: Time) -> None:
        step = Step("a", lambda _: True, every=60.0, again=0.5, monotonic=clock)
        step.turn(None)
        assert (step.more, step.seconds_until_due()) == (True, 0.5)

    def test_that_is_periodic_takes_a_tenth_of_the_time_at_most(self, clock: Time) -> None:
        def work(_: Any) -> bool:
            clock.now += 0.4
            return False

        step = Step("a", work, every=1.0, monotonic=clock)
        step.turn(None)
        assert step.seconds_until_due() == pytest.approx(4.0 - 0.4)
        often = Step("b", work, monotonic=clock)
        often.turn(None)
        assert often.seconds_until_due() == 0.0

    def test_that_fails_rests_longer_each_time_up_to_a_bound_and_begins_anew_once_it_succeeds(
        self, clock: Time
    ) -> None:
        step = Step("a", failing(StatementFailed("time-out")), monotonic=clock)
        rests = []
        for _ in range(10):
            assert not step.turn(None)
            rests.append(step.seconds_until_due())
            clock.now += rests[-1]
        assert rests[:4] == pytest.approx([FIRST_SECONDS * 2**n for n in range(4)])
        assert rests[-1] == pytest.approx(MAX_SECONDS)
        assert step.failing_seconds == pytest.approx(sum(rests))
        step._work = lambda _: False
        assert step.turn(None)
        assert (step.failing_seconds, step.seconds_until_due()) == (0.0, 0.0)
        assert step.figures().failures == 10

    @pytest.mark.parametrize("error", [ValueError("a bug"), StatementFailed("a lock"), KeyError()])
    def test_keeps_every_error_to_itself(self, clock: Time, error: Exception) -> None:
        assert Step("a", failing(error), monotonic=clock).turn(None) is False

    def test_passes_on_that_the_database_is_away_and_is_due_again(self, clock: Time) -> None:
        step = Step("a", failing(OperationalError("gone")), every=60.0, monotonic=clock)
        with pytest.raises(OperationalError):
            step.turn(None)
        assert (step.seconds_until_due(), step.failing_seconds, step.figures().failures) == (0.0, 0.0, 0)

    def test_that_is_slow_rests_as_long_as_it_took(self, clock: Time) -> None:
        def slow(_: Any) -> bool:
            clock.now += 3.0
            return True

        step = Step("a", slow, budget=timedelta(seconds=2), monotonic=clock)
        assert step.turn(None)
        assert step.seconds_until_due() == 3.0
        assert (step.figures().seconds, step.figures().seconds) == (3.0, 0.0)

    def test_that_fails_after_a_long_time_rests_as_long(self, clock: Time) -> None:
        def times_out(_: Any) -> bool:
            clock.now += 2.0
            raise StatementFailed("time-out")

        step = Step("a", times_out, monotonic=clock)
        step.turn(None)
        assert step.seconds_until_due() == 2.0

    def test_tells_of_its_failures_once_and_then_seldom(
        self, clock: Time, caplog: pytest.LogCaptureFixture
    ) -> None:
        step = Step("reap", failing(StatementFailed("time-out")), monotonic=clock)
        for _ in range(20):
            step.turn(None)
            step.hurry()
        told = [record.msg for record in caplog.records if record.name == "carillon"]
        assert [(line["event"], line["step"], line["error"]) for line in told] == [
            ("step failed", "reap", "time-out")
        ]

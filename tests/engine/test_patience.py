"""Leases count as over only if their workers could have renewed them."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.engine.reaper import Patience
from tenants.clock import database_now
from tests import factories
from tests.factories import SECOND, make_trigger, state_of

LEASE = 30 * SECOND


class Time:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def look(time: Time) -> Callable[..., bool]:
    """``look(1)``: process and database move on by 1 s, then the reaper asks. ``step`` moves the database alone."""
    patience, at = Patience(lease=LEASE, monotonic=time), [factories.utc(2026, 1, 1)]

    def ask(seconds: float = 1.0, *, step: float = 0.0, unattended: float | None = None) -> bool:
        time.seconds += seconds
        at[0] += (seconds + step) * SECOND
        return patience.allows(now=at[0], unattended_seconds=unattended)

    return ask


class TestPatience:
    def test_is_not_needed_while_all_is_well(self, look: Callable[..., bool]) -> None:
        assert [look() for _ in range(100)] == [True] * 100

    @pytest.mark.parametrize(
        "trouble",
        [{"seconds": 31.0}, {"step": 3600.0}, {"step": 6.0}, {"unattended": 16.0}, {"unattended": math.inf}],
        ids=["away", "hour ahead", "ahead", "no leader for long", "never a leader"],
    )
    def test_gives_workers_half_a_lease_to_renew(
        self, look: Callable[..., bool], trouble: dict[str, Any]
    ) -> None:
        look()
        assert not look(**trouble)
        assert [look() for _ in range(15)] == [False] * 14 + [True]

    @pytest.mark.parametrize(
        "calm",
        [{"seconds": 9.0}, {"step": 4.0}, {"step": -3600.0}, {"seconds": 600.0, "unattended": 14.0}],
        ids=["a slow turn", "a step ahead", "a step back", "another led meanwhile"],
    )
    def test_is_not_needed_where_workers_could_renew(
        self, look: Callable[..., bool], calm: dict[str, Any]
    ) -> None:
        look()
        assert look(**calm)

    def test_is_not_needed_for_short_leases_that_are_looked_at_as_often_as_may_be(self, time: Time) -> None:
        """A look each second, a little late: with leases of three seconds, each look came after a third of a lease."""
        patience, at = Patience(lease=3 * SECOND, monotonic=time), factories.utc(2026, 1, 1)
        for _ in range(30):
            time.seconds += 1.2
            at += 1.2 * SECOND
            assert patience.allows(now=at)


@pytest.mark.django_db
class TestBeat:
    def test_that_succeeds_a_dead_leader_reaps_at_once(
        self, make_beat: Callable[..., Any], clock: Callable[[timedelta], None]
    ) -> None:
        make_beat().turn()
        dead = make_trigger(state="running", lease_expires_at=factories.now() + SECOND)
        clock(12 * SECOND)  # the beat's lease is 10 s
        make_beat().turn()
        assert state_of(dead)[0] == "retrying"

    def test_that_leads_after_a_long_time_without_a_leader_waits(
        self, make_beat: Callable[..., Any], clock: Callable[[timedelta], None]
    ) -> None:
        make_beat().turn()
        held = make_trigger(state="running", lease_expires_at=factories.now() + SECOND)
        clock(20 * SECOND)
        make_beat().turn()
        assert state_of(held)[0] == "running"

    def test_reaps_nothing_at_once_after_a_step_of_the_databases_clock(self, beat: Any, clock: Any) -> None:
        """Each worker renews within a third of its lease. So by then all have renewed by the new clock."""
        beat.turn()
        dead, alive = (
            make_trigger(state="running", lease_expires_at=factories.now() + 25 * SECOND) for _ in range(2)
        )
        clock(timedelta(hours=1))
        beat.turn()
        assert [state_of(trigger)[0] for trigger in (dead, alive)] == ["running", "running"]
        type(alive).objects.filter(id=alive.id).update(lease_expires_at=database_now() + LEASE)
        beat.cycle._patience._waits_until = 0.0
        beat.turn()
        assert [state_of(trigger)[0] for trigger in (dead, alive)] == ["retrying", "running"]

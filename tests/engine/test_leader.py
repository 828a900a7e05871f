"""Leadership and the Celery scheduler around it, each by itself."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery.signals import beat_init
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions.bulk.runner import Runner
from jobs.engine.beat import LeaderScheduler, served_types
from jobs.engine.leader import Leader
from jobs.models import Lease
from jobs.store import db
from jobs.wakeups import wake_beats
from scheduler_project.celery import app
from scheduler_project.processes import collector

LEASE = timedelta(seconds=9)


@pytest.mark.django_db
class TestLeader:
    def test_without_election_always_leads_and_never_asks(self) -> None:
        leader = Leader(lease=LEASE, election=False)
        with CaptureQueriesContext(connection) as queries:
            leadership = leader.lead()
            leader.step_down()
            leader.hand_over()
            assert leadership is not None
            assert (leader.lead(), leadership.term) == (leadership, None)
        assert len(queries) == 0

    def test_renews_at_a_third_of_the_lease(self) -> None:
        leader = Leader(lease=LEASE)
        leadership = leader.lead()
        with CaptureQueriesContext(connection) as queries:
            assert leader.lead() is leadership
        assert len(queries) == 0
        before = Lease.objects.get().expires_at
        leader._renew_after = 0.0
        assert leader.lead() is leadership
        assert Lease.objects.get().expires_at > before

    def test_stops_leading_when_the_renewal_fails(self) -> None:
        leader = Leader(lease=LEASE)
        leader.lead()
        Lease.objects.update(term=7, holder="another")
        leader._renew_after = 0.0
        assert leader.lead() is None
        assert leader.lead() is None
        assert Lease.objects.get().term == 7

    def test_takes_over_from_one_that_stepped_down_only_after_expiry(
        self, clock: Callable[..., None]
    ) -> None:
        old, new = Leader(lease=LEASE), Leader(lease=LEASE)
        old.lead()
        old.step_down()
        assert new.lead() is None
        clock(LEASE + timedelta(seconds=1))
        leadership = new.lead()
        assert leadership is not None
        assert leadership.term == 2

    def test_hands_over_at_once(self) -> None:
        old, new = Leader(lease=LEASE), Leader(lease=LEASE)
        old.lead()
        old.hand_over()
        old.hand_over()
        assert new.lead() is not None

    def test_inherits_nothing_from_itself(self, clock: Callable[..., None]) -> None:
        """Its lease ran out while it was busy, or its database was away: no other beat left work half done."""
        leader = Leader(lease=LEASE)
        leader.lead()
        before = leader.inheritances
        leader.step_down()
        leader.lead()
        clock(LEASE + timedelta(seconds=1))
        leader._renew_after = 0.0
        leadership = leader.lead()
        assert (leadership and leadership.term, leader.inheritances) == (3, before)

    def test_that_gives_up_leaves_its_leases_to_another(self, clock: Callable[..., None]) -> None:
        old, new = Leader(lease=LEASE), Leader(lease=LEASE)
        old.lead()
        old.give_up()
        assert old.lead() is None
        leadership = new.lead()
        assert (leadership and leadership.term, new.inheritances) == (2, 1), "who knows what it left"
        clock(2 * LEASE)
        assert old.lead() is not None, "that one is gone"

    def test_that_gives_up_takes_them_again_if_nobody_else_does(self, clock: Callable[..., None]) -> None:
        leader = Leader(lease=LEASE)
        leader.lead()
        leader.give_up()
        clock(LEASE * 0.4)
        assert leader.lead() is None
        clock(LEASE * 0.6)
        assert leader.lead() is not None

    def test_that_gave_up_takes_what_is_free_after_a_while(
        self, clock: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leader = Leader(lease=LEASE)
        leader.lead()
        leader.give_up()
        leader._abstains_until = time.monotonic()
        assert leader.lead() is not None


class StubCycle:
    """Stands in for the engine's cycle: says how long to sleep, counts its turns."""

    def __init__(self) -> None:
        self.turns = self.closed = 0
        self.leading = False
        self.sleeps = 0.0
        self.during: Callable[[], None] = lambda: None

    def tick(self) -> float:
        self.turns += 1
        self.during()
        return self.sleeps

    def close(self) -> None:
        self.closed += 1


class TestLeaderScheduler:
    @pytest.fixture
    def scheduler(self, job_types: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeaderScheduler]:
        """A real scheduler whose cycle is a stub. The signal handlers are restored afterwards.

        Left out are a beat's thread for operations, its kept plans, and the objects that its collector spares. They
        would outlive the test and disturb all later tests.
        """
        monkeypatch.setattr(collector, "spare", lambda: None)
        monkeypatch.setattr(Runner, "start", lambda self: None)
        monkeypatch.setattr(db, "keep_plans", lambda: None)
        found = LeaderScheduler(app)
        found._cycle = StubCycle()  # type: ignore[assignment]
        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        yield found
        signal.set_wakeup_fd(-1)
        for number, handler in kept.items():
            signal.signal(number, handler)
        beat_init.disconnect(found._install_signals)
        for end in (found._wake_read, found._wake_write):
            os.close(end)
        found._listener.close()

    def test_of_the_banner_touches_nothing(self) -> None:
        scheduler = LeaderScheduler(app, lazy=True)
        scheduler.close()
        assert "leader election" in scheduler.info

    def test_serves_every_registered_type(self, job_types: None) -> None:
        assert {"noop", "webhook", "celery_task", "message"} <= served_types().keys()

    def test_makes_one_turn_a_tick_and_waits_itself(self, scheduler: Any) -> None:
        assert scheduler.tick() == 0.0
        assert scheduler._cycle.turns == 1

    def test_leaves_before_a_turn_once_asked(self, scheduler: Any) -> None:
        scheduler._ask_to_stop(signal.SIGTERM, None)
        with pytest.raises(SystemExit):
            scheduler.tick()
        assert scheduler._cycle.turns == 0

    def test_finishes_the_turn_in_which_it_is_asked(self, scheduler: Any) -> None:
        beat_init.send(sender=None)
        ended = []

        def during() -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(True)

        scheduler._cycle.during, scheduler._cycle.sleeps = during, 60.0
        with pytest.raises(SystemExit):
            scheduler.tick()
        assert (ended, scheduler._cycle.closed) == ([True], 0)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_wakes_from_its_sleep_at_a_signal(self, scheduler: Any, number: int) -> None:
        beat_init.send(sender=None)
        scheduler._cycle.sleeps = 60.0
        asleep = threading.Event()
        scheduler._cycle.during = asleep.set
        threading.Thread(target=lambda: asleep.wait(10) and os.kill(os.getpid(), number)).start()
        with pytest.raises(SystemExit):
            scheduler.tick()

    def test_sleeps_on_after_a_signal_that_is_not_for_it(self, scheduler: Any) -> None:
        beat_init.send(sender=None)
        os.write(scheduler._wake_write, b"\x01")
        scheduler._cycle.sleeps = 60.0
        assert scheduler.tick() == 0.0
        scheduler._cycle.sleeps = 0.001
        assert scheduler.tick() == 0.0
        assert scheduler._cycle.turns == 2

    def test_wakes_from_a_leaders_sleep_at_a_wake_up(self, scheduler: Any) -> None:
        scheduler._cycle.sleeps, scheduler._cycle.leading = 60.0, True
        began = time.monotonic()
        assert scheduler.tick() == 0.0  # ends once it has subscribed
        wake_beats()
        assert scheduler.tick() == 0.0
        assert time.monotonic() - began < 60
        assert scheduler._cycle.turns == 2

    def test_does_not_listen_while_another_leads(self, scheduler: Any) -> None:
        scheduler._cycle.sleeps = 0.001
        scheduler.tick()
        assert scheduler._listener._thread is None

    def test_closes_its_cycle_and_may_do_so_twice(self, scheduler: Any) -> None:
        scheduler.close()
        scheduler.close()
        assert scheduler._cycle.closed == 2

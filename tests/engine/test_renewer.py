"""The lease renewer, stepped by hand: which process it gives up, and which process had only been frozen."""

import os
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError

from jobs.engine.worker.leases import renewer as module
from jobs.engine.worker.leases.renewer import EXIT_STATUS, NOTICE_SECONDS, Held, Hold, LeaseRenewer
from jobs.handlers.context import Flag
from jobs.store.execution import ClaimToken
from tests.engine.conftest import Told

LEASE = timedelta(seconds=30)
GRACE, DRAIN = timedelta(seconds=15), timedelta(seconds=25)


class Process:
    """A renewer's batches and a clock for it. ``ended`` holds the status with which it gave the process up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.told = 1000.0, False
        self.ended, self.rescued, self.handed_back, self.batches = [], [], [], []
        self.sent: list[list[bool]] = []
        monkeypatch.setattr(module.draining, "begun", lambda: self.told)
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.db, "disconnect", lambda: None)
        monkeypatch.setattr(os, "_exit", self.ended.append)
        # Wait for a slow collector only while nothing has been given back yet.
        monkeypatch.setattr(module, "send_the_rest", lambda: self.sent.append(list(self.rescued)))
        self.loop_failed = False
        self._renewer = LeaseRenewer(
            lease=LEASE,
            flush_seconds=0.1,
            grace=GRACE,
            drain=DRAIN,
            expendable=True,
            loop_failed=lambda: self.loop_failed,
        )

    def starts_a_handler(self, *, timeout: float = 10.0) -> Told:
        held = Held(ClaimToken(uuid4(), 1), Flag(), deadline=self.now + timeout)
        batch = Told(Hold({held.token.id: held}), rescue=self.rescued.append)
        batch.hand_back = lambda: self.handed_back.append(batch)
        self.batches.append(batch)
        return batch

    def stops(self, batch: Told) -> None:
        """The batch's handler has ended, by itself or by its time-out."""
        for held in batch.hold.held.values():
            held.deadline = None
            held.done = True
        self.batches.remove(batch)

    def keep(self, batch: Told) -> None:
        self._renewer._batches.append(batch)

    def kept(self) -> list[Told]:
        return self._renewer._batches

    def looks_after_all(self) -> None:
        for batch in self.batches:
            self._renewer._look_after(batch)

    def looks(self, *, after: float) -> None:
        self.now += after
        self._renewer._hand_back_if_drained(self.batches)
        self._renewer._give_up_if_stuck(self.batches)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


class TestLeaseRenewer:
    def test_gives_up_a_process_with_a_stuck_handler(self, process: Process) -> None:
        process.starts_a_handler(timeout=10)
        process.looks(after=10 + GRACE.total_seconds())
        process.looks(after=0.1)
        assert process.ended == []
        process.looks(after=NOTICE_SECONDS)
        assert (process.ended, process.rescued, process.sent) == ([EXIT_STATUS], [True], [[]])

    def test_gives_up_a_process_whose_loop_failed_at_once(self, process: Process) -> None:
        process.starts_a_handler(timeout=60)
        process.looks(after=0.1)
        assert process.ended == []
        process.loop_failed = True
        process.looks(after=0.1)
        assert (process.ended, process.rescued) == ([EXIT_STATUS], [True])

    def test_says_its_last_words_again_where_the_connection_was_closed(
        self, process: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said, answers = [], iter([OperationalError("connection socket closed"), None])

        def say(alone: bool) -> None:
            said.append(alone)
            if error := next(answers):
                raise error

        process.starts_a_handler().rescue = say
        process.loop_failed = True
        process.looks(after=0.1)
        assert (process.ended, said) == ([EXIT_STATUS], [True, True])

    def test_lets_a_process_that_was_frozen_stop_its_handlers_and_go_on(self, process: Process) -> None:
        """All handlers are overdue when it wakes. Their time-outs, frozen as well, are as late as the renewer is."""
        overdue = process.starts_a_handler()
        process.looks(after=60)
        fresh = process.starts_a_handler()
        process.looks(after=0.1)
        process.stops(overdue)
        process.looks(after=NOTICE_SECONDS)
        process.looks(after=NOTICE_SECONDS)
        assert process.ended == []
        process.stops(fresh)

    def test_lets_it_be_frozen_twice(self, process: Process) -> None:
        first = process.starts_a_handler()
        process.looks(after=60)
        process.stops(first)
        process.starts_a_handler()
        process.looks(after=60)
        assert process.ended == []

    def test_gives_up_one_whose_handler_is_stuck_after_it_woke_too(self, process: Process) -> None:
        process.starts_a_handler()
        process.looks(after=60)
        process.starts_a_handler(timeout=100)
        process.looks(after=NOTICE_SECONDS)
        assert (process.ended, process.rescued) == ([EXIT_STATUS], [False, False])


class TestAWorkerToldToStop:
    def test_waits_for_what_ends_in_time(self, process: Process) -> None:
        handler = process.starts_a_handler(timeout=600)
        process.told = True
        process.looks(after=0.1)
        process.looks(after=DRAIN.total_seconds() - 0.1)
        process.stops(handler)
        process.looks(after=1)
        assert (process.ended, process.handed_back) == ([], [])

    def test_hands_back_what_does_not_and_ends(self, process: Process) -> None:
        handlers = [process.starts_a_handler(timeout=600) for _ in range(2)]
        process.told = True
        process.looks(after=0.1)
        process.looks(after=DRAIN.total_seconds())
        assert (process.ended, process.handed_back) == ([EXIT_STATUS], handlers)

    def test_is_not_one_that_was_not_told(self, process: Process) -> None:
        process.starts_a_handler(timeout=600)
        process.looks(after=500)
        assert process.handed_back == []


class TestOneBadWrite:
    def test_keeps_no_other_batch_from_being_looked_after(self, process: Process) -> None:
        def fail() -> None:
            raise ValueError("deliberate")

        bad, good = process.starts_a_handler(), process.starts_a_handler()
        written: list[Told] = []
        bad.flush_if_due, good.flush_if_due = fail, lambda: written.append(good)
        process.looks_after_all()
        assert written == [good]

    def test_is_given_up_with_its_lease(self, process: Process) -> None:
        """A lingering handler would keep its process from ending for ever."""

        def fail() -> None:
            raise ValueError("deliberate")

        batch = process.starts_a_handler()
        batch.flush, batch.hold.lingers, batch.hold.ended_at = fail, True, process.now
        process.keep(batch)
        process.looks_after_all()
        assert process.kept() == [batch]
        process.now += LEASE.total_seconds() + 1
        process.looks_after_all()
        assert process.kept() == []

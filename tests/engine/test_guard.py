"""The guard, stepped by hand, over a real process that is silent, stopped, dead or at work."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from jobs.engine.worker.leases import guard as module
from jobs.engine.worker.leases.guard import Guard
from jobs.engine.worker.leases.hands import MAX_ENTRIES, Hands
from jobs.models import Trigger
from jobs.store import execution, lifecycle
from jobs.store.execution import ClaimToken
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import queued
from tests.factories import attempts, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)
LEASE, GRACE = timedelta(seconds=30), timedelta(seconds=0)
#: A time long past: no process that a test makes has beaten since.
LONG_AGO = 0.001


class Worker:
    """A forked process that notes its claimed triggers and does nothing more; ``guard`` watches it."""

    def __init__(self) -> None:
        self.hands = Hands()
        self.guard = Guard(self.hands, lease=LEASE, grace=GRACE)
        self.pid = 0

    def takes(
        self,
        *triggers: Trigger,
        deadline: float | dict[Any, float] | None = None,
        beat_at: float = LONG_AGO,
        expendable: bool = True,
    ) -> None:
        """Claim as a worker does; the leases are almost over."""
        for trigger in triggers:
            execution.claim(
                tokens=[factories.claim_token(trigger)],
                job_types=[trigger.job_type],
                worker="w1",
                celery_task_id="",
                lease=timedelta(seconds=5),
            )
        noted, said = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                self.hands.begin(expendable=expendable)
                self.hands.beat(beat_at)
                for trigger in triggers:
                    entry = self.hands.note(ClaimToken(trigger.id, 1))
                    own = deadline[trigger.id] if isinstance(deadline, dict) else deadline
                    self.hands.set_deadline(entry, own)
                os.write(said, b"1")
                signal.pause()
            finally:
                os._exit(0)
        os.read(noted, 1)

    @property
    def lives(self) -> bool:
        return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def worker() -> Iterator[Worker]:
    one = Worker()
    yield one
    one.end()


@pytest.fixture
def trigger(handler: Callable[..., str]) -> Trigger:
    return queued(handler(lambda ctx, payload: None), timeout=timedelta(seconds=7))


def lease_left(trigger: Trigger) -> float:
    return (row(trigger)["lease_expires_at"] - factories.now()).total_seconds()


class TestGuard:
    def test_renews_for_a_process_that_is_silent(self, worker: Worker, trigger: Trigger) -> None:
        worker.takes(trigger, deadline=time.monotonic() + 600)
        worker.guard.turn()
        assert lease_left(trigger) > 20
        assert worker.lives

    def test_leaves_the_leases_of_one_that_beats_to_its_keeper(
        self, worker: Worker, trigger: Trigger
    ) -> None:
        worker.takes(trigger, deadline=LONG_AGO, beat_at=time.monotonic() + 60)
        worker.guard.turn()
        assert lease_left(trigger) < 6
        assert worker.lives

    def test_lets_the_leases_of_one_that_is_stopped_run_out(self, worker: Worker, trigger: Trigger) -> None:
        worker.takes(trigger, deadline=LONG_AGO)
        os.kill(worker.pid, signal.SIGSTOP)
        wait_until(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
        worker.guard.turn()
        assert lease_left(trigger) < 6

    def test_lets_the_leases_of_a_dead_one_run_out_and_forgets_it(
        self, worker: Worker, trigger: Trigger
    ) -> None:
        worker.takes(trigger)
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not worker.lives)
        worker.guard.turn()
        assert lease_left(trigger) < 6
        assert list(worker.hands.slots()) == []

    def test_ends_one_whose_handler_overstays_and_spares_what_had_not_begun(
        self, worker: Worker, trigger: Trigger
    ) -> None:
        worker.takes(trigger, deadline=LONG_AGO)
        worker.guard.turn()
        assert not worker.lives
        [attempt] = attempts(trigger)
        assert (attempt.state, attempt.error_code) == ("timed_out", "timeout")
        assert "timeout of 7 s" in attempt.error_message
        assert (row(trigger)["state"], row(trigger)["crash_count"]) == ("retrying", 1)

    def test_spares_one_whose_handler_may_go_on_though_calls_beside_it_are_overdue(
        self, worker: Worker, trigger: Trigger
    ) -> None:
        """Lingering calls get no turn while a handler holds the interpreter: to end the process would run it again."""
        lingering = queued("noop")
        worker.takes(
            trigger, lingering, deadline={trigger.id: time.monotonic() + 600, lingering.id: LONG_AGO}
        )
        worker.guard.turn()
        assert worker.lives
        assert [state_of(one)[0] for one in (trigger, lingering)] == ["running"] * 2

    @pytest.mark.parametrize("expendable", [True, False])
    def test_ends_one_that_cannot_hear_of_a_cancel_if_it_has_nothing_else(
        self, worker: Worker, trigger: Trigger, monkeypatch: pytest.MonkeyPatch, expendable: bool
    ) -> None:
        monkeypatch.setattr(module, "NOTICE_SECONDS", 0.0)
        worker.takes(trigger, deadline=time.monotonic() + 600, expendable=expendable)
        lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
        worker.guard.turn()
        worker.guard.turn()
        assert worker.lives is not expendable
        assert state_of(trigger) == (("cancelled", "requested") if expendable else ("running", ""))

    def test_keeps_apart_who_has_the_pid_of_one_that_is_gone(self, worker: Worker, trigger: Trigger) -> None:
        """The kernel reuses pids: a new process with this pid must not be killed."""
        worker.takes(trigger, deadline=LONG_AGO)
        [slot] = worker.hands.slots()
        import struct

        struct.pack_into("=d", worker.hands._memory, slot.place + 8, slot.started_at - 100)
        worker.guard.turn()
        assert worker.lives


class TestHands:
    @pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system keeps all files on disks")
    def test_need_no_disk(self, monkeypatch: Any, tmp_path: Path) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        hands = Hands()
        hands.begin(expendable=True)
        hands.note(token := ClaimToken(factories.new_id(), 1))
        [slot] = hands.slots()
        assert [noted.token for noted in slot.noted] == [token]

    def test_hold_as_many_as_there_is_room_for(self, monkeypatch: Any) -> None:
        hands = Hands()
        hands.begin(expendable=False)
        tokens = [ClaimToken(factories.new_id(), number + 1) for number in range(MAX_ENTRIES + 1)]
        entries = [hands.note(token) for token in tokens]
        assert entries[-1] == -1
        [slot] = hands.slots()
        assert {noted.token for noted in slot.noted} == set(tokens[:-1])
        for entry in entries:
            hands.set_deadline(entry, 5.0)
            hands.drop(entry)
        [slot] = hands.slots()
        assert slot.noted == []
        assert hands.note(tokens[0]) >= 0

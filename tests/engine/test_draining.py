"""What a worker hands back when it was told to stop and its handlers have not ended."""

from datetime import timedelta

import pytest

from jobs.conf import engine_settings
from jobs.engine.worker import batch, draining
from jobs.engine.worker.process import THIS
from jobs.handlers import registry
from jobs.models import Trigger
from jobs.store import execution
from jobs.store.execution import ClaimToken
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import queued
from tests.factories import attempts, row, state_of

#: With a keeper and a runner of each test's own.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("perform")]


def in_hand(*triggers: Trigger, started: bool = True) -> batch.Batch:
    """A claimed batch whose handlers are at work, or have not begun."""
    tokens = [ClaimToken(trigger.id, trigger.fence) for trigger in triggers]
    rows = execution.claim(
        tokens=tokens,
        job_types=[triggers[0].job_type],
        worker="w1",
        celery_task_id="c",
        lease=timedelta(seconds=30),
    )
    kind = registry.get(triggers[0].job_type)
    claimed = batch.Batch(kind, rows, settings=engine_settings(), runner=THIS.runner, renewer=THIS.renewer)
    for held in claimed.hold.held.values():
        held.deadline = 1.0 if started else None
    return claimed


class TestDraining:
    @pytest.mark.parametrize("started", [True, False])
    def test_hands_back_what_another_worker_is_to_start_at_once(self, handler, started: bool) -> None:
        trigger = queued(handler(lambda ctx, payload: None))
        in_hand(trigger, started=started).hand_back()
        stored, [attempt] = row(trigger), attempts(trigger)
        assert (attempt.state, attempt.error_code) == ("lost", "handed_back")
        assert stored["state"] == "retrying"
        assert stored["due_at"] <= factories.now()
        assert stored["lease_expires_at"] is None
        # It did nothing wrong: no crash, no attempt of its budget, and company may go on with it.
        assert (stored["crash_count"], stored["budget_start"], stored["suspect"]) == (0, 1, False)

    def test_starts_nothing_twice_that_is_to_start_at_most_once(self, handler) -> None:
        trigger = queued(handler(lambda ctx, payload: None), delivery="at_most_once")
        in_hand(trigger).hand_back()
        assert state_of(trigger) == ("dead", "lost")

    def test_leaves_alone_what_has_ended(self, handler) -> None:
        trigger = queued(handler(lambda ctx, payload: None))
        claimed = in_hand(trigger)
        claimed.execute()
        claimed.hand_back()
        assert state_of(trigger)[0] == "succeeded"

    def test_is_on_record_of_what_runs_at_once(
        self, perform, handler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever told the worker to stop may have less patience than it takes to drain."""
        told = []
        monkeypatch.setattr(draining, "begun", lambda: bool(told))

        def long(ctx, payload) -> None:
            told.append(True)
            wait_until(lambda: attempts(trigger)[0].error_code == "stopping")

        trigger = queued(handler(long))
        assert perform(trigger) == {"succeeded": 1}
        assert (attempts(trigger)[0].state, attempts(trigger)[0].error_code) == ("succeeded", "")

    def test_is_known_to_processes_forked_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The memory is shared: what the parent sets, its children read."""
        import os

        told, say = os.pipe()
        go, started = os.pipe()
        child = os.fork()
        if not child:
            os.read(go, 1)
            os.write(say, b"1" if draining.begun() else b"0")
            os._exit(0)
        draining.begin()
        os.write(started, b"1")
        os.waitpid(child, 0)
        draining._told[0] = 0
        assert os.read(told, 1) == b"1"

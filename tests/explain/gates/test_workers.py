"""Gates on the way to a worker: the queue's window, the broker, a worker that takes it, and the attempt that runs."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.explain.gate import moment
from jobs.models import Queue, Worker
from jobs.store import execution
from jobs.store.insight import workers
from tests.explain.asking import Clock, blocking, explain, gate, is_dispatched, passed
from tests.factories import (
    MINUTE,
    claim,
    dispatch,
    finish_of,
    make_job,
    make_running,
    make_trigger,
    now,
    state_of,
)


class TestQueueWindow:
    def test_opens_when_workers_have_taken_what_is_queued(self) -> None:
        dispatch(window=1)  # nothing is due yet
        other = make_trigger()
        dispatch(window=1)
        assert Queue.objects.get().window == 1
        trigger = make_trigger()
        assert blocking(trigger) == ["queue_window"]
        found = gate(trigger, "queue_window")
        assert (found.used, found.limit) == (0, None)
        assert found.detail.startswith("Queue jobs.noop is full")
        assert not is_dispatched(trigger, window=1)
        other.refresh_from_db()
        claim(other)
        assert blocking(trigger) == []
        assert is_dispatched(trigger, window=1)

    def test_lets_urgent_work_beyond_it_where_workers_keep_slots(self, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": 1, "queue_window_min": 1})
        make_trigger()
        dispatch(window=1, urgent=1)
        plain, urgent = make_trigger(), make_trigger(make_job(priority=1))
        assert blocking(plain) == ["queue_window"]
        assert blocking(urgent) == []
        assert "is full, and has room for critical and high" in gate(urgent, "queue_window").detail
        assert is_dispatched(urgent, window=1, urgent=1)
        one_more = make_trigger(make_job(priority=0))
        assert blocking(one_more) == ["queue_window"]
        assert not is_dispatched(one_more, window=1, urgent=1)
        assert state_of(plain)[0] == "pending"


class TestBroker:
    def test_blocks_until_a_worker_claims_it(self) -> None:
        trigger = make_trigger()
        make_trigger(make_job(trigger.tenant), state="queued", queued_at=now() - MINUTE)
        make_trigger(state="queued", queued_at=now() - MINUTE)  # another tenant's
        dispatch()
        assert blocking(trigger) == ["broker"]
        assert gate(trigger, "broker").used == 1
        assert "1 trigger of yours queued before it" in explain(trigger).summary
        trigger.refresh_from_db()
        assert claim(trigger)
        assert blocking(trigger) == ["running"]

    def test_tells_when_the_message_is_taken_for_lost(self, clock: Clock) -> None:
        queued_at = now().replace(microsecond=0)
        for fence, seconds in ((1, 30), (2, 30), (3, 60), (4, 120)):
            trigger = make_trigger(state="queued", fence=fence, queued_at=queued_at)
            told = f"Not claimed by {moment(queued_at + timedelta(seconds=seconds))}, it is dispatched again."
            assert told in explain(trigger).summary


class TestWorker:
    def test_opens_when_a_worker_takes_from_its_queue(self) -> None:
        trigger = make_trigger()
        workers.leave(name="w1")
        assert blocking(trigger) == ["worker"]
        workers.announce(name="w2", queues=["jobs.webhook"], concurrency=1)
        assert gate(trigger, "worker").detail == "No worker takes from jobs.noop, and none has recently."
        workers.announce(name="w3", queues=["jobs.noop"], concurrency=2)
        assert "1 worker with room for 2 messages" in gate(trigger, "worker").detail
        passed(trigger)

    @pytest.mark.parametrize(
        ("priority", "kept", "said"), [(3, 1, True), (2, 1, True), (1, 1, False), (3, 0, False)]
    )
    def test_says_what_is_kept_for_urgent_work(
        self, settings: Any, priority: int, kept: int, said: bool
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": kept})
        detail = gate(make_trigger(priority=priority), "worker").detail
        assert ("keeps 1 of its slots for critical and high" in detail) is said

    def test_blocks_when_the_last_one_has_fallen_silent(self) -> None:
        trigger = make_trigger()
        Worker.objects.update(seen_at=now() - MINUTE)
        assert blocking(trigger) == ["worker"]
        assert "1 min ago" in gate(trigger, "worker").detail

    def test_blocks_beside_the_broker_s_for_what_is_queued(self) -> None:
        trigger = make_trigger(state="queued")
        workers.leave(name="w1")
        assert blocking(trigger) == ["broker", "worker"]


class TestRunning:
    def test_names_the_worker_the_attempt_and_the_lease(self) -> None:
        trigger, attempt = make_running(make_job(timeout=MINUTE, retry_policy={"max_attempts": 3}))
        assert blocking(trigger) == ["running"]
        found = gate(trigger, "running")
        assert "Running on w1" in found.detail
        assert "attempt 1 of 3" in found.detail
        assert found.opens_at == attempt.started_at + MINUTE
        execution.finish([finish_of(trigger, attempt)])
        assert explain(trigger).gates == ()
        assert explain(trigger).summary.endswith("with attempt 1 of 3.")

    def test_says_so_when_it_was_asked_to_stop(self) -> None:
        trigger, _ = make_running(cancel_requested=True)
        assert "asked to stop" in explain(trigger).summary

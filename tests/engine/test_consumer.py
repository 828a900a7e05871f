"""Carillon's consumer publishes task events in batches, and gives back what it has not begun when it stops."""

import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest.mock import Mock
from uuid import uuid4

import pytest
from amqp.exceptions import AMQPNotImplementedError
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer import consumer as complaints
from kombu import Queue

from jobs.telemetry import Outage
from scheduler_project.celery import app
from scheduler_project.worker import consumer
from scheduler_project.worker.consumer import (
    FLUSH_SECONDS,
    MAX_EVENTS,
    Consumer,
)
from stage.waiting import wait_until


class Hub:
    """Remembers the calls that it was asked to make later."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.calls.append((delay, callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.calls.append((0.0, callback))


class Stood(Consumer):
    """A consumer with only a hub and a dispatcher that counts its flushes."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.flushed = 0
        self.event_dispatcher = SimpleNamespace(buffer_limit=24, flush=self._count)

    def _count(self) -> None:
        self.flushed += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(consumer.time, "monotonic", lambda: found.now)
    return found


def test_many_events_make_one_flush(clock: SimpleNamespace) -> None:
    worker = Stood()
    for _ in range(50):
        worker.on_send_event_buffered()
    [(delay, flush)] = worker.hub.calls
    assert delay == FLUSH_SECONDS
    assert worker.event_dispatcher.buffer_limit == MAX_EVENTS
    flush()
    assert worker.flushed == 1


def test_a_flush_that_went_with_its_connection_is_not_waited_for(clock: SimpleNamespace) -> None:
    worker = Stood()
    worker.on_send_event_buffered()
    clock.now += FLUSH_SECONDS
    worker.on_send_event_buffered()
    assert len(worker.hub.calls) == 2


def test_an_event_of_a_pools_thread_wakes_the_loop(clock: SimpleNamespace) -> None:
    worker = Stood()
    thread = threading.Thread(target=worker.on_send_event_buffered)
    thread.start()
    thread.join()
    [(delay, planned)] = worker.hub.calls
    assert delay == 0
    planned()
    assert worker.hub.calls[1][0] == FLUSH_SECONDS


def test_celery_takes_ours_and_gives_what_is_left_at_the_end(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.conf.worker_consumer == f"{Consumer.__module__}:{Consumer.__qualname__}"
    worker = Stood()
    monkeypatch.setattr(consumer.CelerysConsumer, "shutdown", lambda self: None)
    worker.shutdown()
    assert worker.flushed == 1


class Queues(dict[str, Queue]):
    """As in Celery: queues by name, and the list of those that are consumed from."""

    @property
    def consume_from(self) -> list[str]:
        return list(self)


class TestQuorumQueues:
    """Quorum queues refuse a prefetch count that is the worker's, with an error that ends the connection."""

    @pytest.fixture
    def worker(self, monkeypatch: pytest.MonkeyPatch) -> Stood:
        monkeypatch.setattr(
            consumer.CelerysConsumer, "on_connection_error_after_connected", lambda self, exc: None
        )
        worker = Stood()
        worker.app = SimpleNamespace(
            amqp=SimpleNamespace(queues=Queues({name: Queue(name) for name in "abc"}))
        )
        worker.connection = SimpleNamespace(transport=SimpleNamespace(driver_type="amqp"))
        worker.pool, worker.prefetch_multiplier = SimpleNamespace(num_processes=8), 1
        worker.initial_prefetch_count = 8
        return worker

    def test_have_it_by_queue_once_they_refused(self, worker: Stood) -> None:
        refused = "NOT_IMPLEMENTED - queue 'jobs.webhook' in vhost 'qq' does not support global qos"
        worker.on_connection_error_after_connected(AMQPNotImplementedError(refused))
        assert consumer.count_prefetch(worker, celerys=lambda _: True) is False
        assert worker.initial_prefetch_count == 2  # a worker's 8, shared by three queues

    def test_have_it_by_queue_from_the_first_where_we_declare_them(self, worker: Stood) -> None:
        worker.app.amqp.queues["a"].queue_arguments = {"x-queue-type": "quorum"}
        assert consumer.count_prefetch(worker, celerys=lambda _: True) is False
        assert worker.initial_prefetch_count == 2

    def test_change_nothing_for_others(self, worker: Stood) -> None:
        worker.on_connection_error_after_connected(ConnectionResetError())
        assert consumer.count_prefetch(worker, celerys=lambda _: True) is True
        assert worker.initial_prefetch_count == 8


class TestClose:
    """The close of a worker that is told to stop, and has asked Redis for one more message."""

    @pytest.fixture
    def stopping(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
        """A consumer whose BRPOP is outstanding; ``put`` publishes to its queue, ``others`` takes from it."""
        monkeypatch.setattr(consumer.state, "should_stop", 0)
        monkeypatch.setattr(consumer.CelerysConsumer, "on_close", lambda self: None)
        queue = Queue(f"test-{uuid4()}", durable=False)
        with app.connection() as ours, app.connection() as others:
            taken: list[object] = []
            task_consumer = ours.Consumer(queue, callbacks=[lambda body, message: taken.append(body)])
            task_consumer.consume()
            ours.transport.cycle._register_BRPOP(task_consumer.channel)
            worker = Stood()
            worker.connection, worker.task_consumer = ours, task_consumer
            worker.connection_errors, worker.channel_errors = ours.connection_errors, ours.channel_errors
            yield SimpleNamespace(
                worker=worker,
                channel=task_consumer.channel,
                put=lambda body: others.Producer(routing_key=queue.name).publish(body),
                others=lambda: queue(others.default_channel).get(no_ack=True),
                taken=taken,
            )
            queue(others.default_channel).delete()

    def test_gives_back_at_once_what_comes_of_it(self, stopping: SimpleNamespace) -> None:
        stopping.put("late")
        wait_until(lambda: stopping.others() is None, what="Redis to have handed it over")
        stopping.worker.on_close()
        assert stopping.others().payload == "late"
        assert stopping.taken == []

    def test_gives_back_what_no_process_has_begun(
        self, stopping: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waiting, begun = Mock(), Mock()
        monkeypatch.setattr(consumer.state, "reserved_requests", [waiting, begun])
        monkeypatch.setattr(consumer.state, "active_requests", [begun])
        stopping.worker.on_close()
        [call] = waiting.message.reject_log_error.mock_calls
        assert call.kwargs == {"requeue": True}
        begun.message.reject_log_error.assert_not_called()

    def test_takes_no_longer_than_redis_where_nothing_comes(self, stopping: SimpleNamespace) -> None:
        stopping.worker.on_close()
        assert not stopping.channel._in_poll

    def test_is_not_held_up_by_a_redis_that_does_not_answer(
        self, stopping: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(consumer.select, "select", lambda *_: ([], [], []))
        stopping.worker.on_close()
        assert stopping.channel._in_poll, "closing the channel will see to it"

    def test_leaves_a_consumer_alone_that_is_to_start_again(
        self, stopping: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(consumer.state, "should_stop", None)
        stopping.worker.on_close()
        assert stopping.channel._in_poll


class TestABrokerThatIsAway:
    def test_is_told_of_as_one_outage(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(consumer, "_outage", Outage("broker away"))
        celerys, away = logging.getLogger(complaints.__name__), ConnectionError("refused")
        celerys.warning("%s (%r)", complaints.CONNECTION_RETRY, away)
        for number in range(30):
            celerys.error(complaints.CONNECTION_ERROR, "redis://", away, f"Trying again... ({number}/100)")
        connected = Mock()
        monkeypatch.setattr(CelerysConsumer, "connect", lambda _: connected)
        assert Consumer.connect(Mock(spec=Consumer)) is connected
        first, over = [record.msg for record in caplog.records]
        assert (first["event"], first["error"]) == ("broker away", "refused")
        assert (over["event"], over["failures"]) == ("broker away: over", 31)

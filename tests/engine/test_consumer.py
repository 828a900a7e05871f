"""Our consumer publishes task events in lots, whatever became of the connection meanwhile."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from scheduler_project.worker import consumer
from scheduler_project.worker.consumer import FLUSH_SECONDS, MOST_EVENTS, Consumer


class Hub:
    """Remembers what it was asked to call later."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.calls.append((delay, callback))


class Stood(Consumer):
    """A consumer with nothing behind it but a hub and a dispatcher that counts its flushes."""

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
    assert worker.event_dispatcher.buffer_limit == MOST_EVENTS
    flush()
    assert worker.flushed == 1


def test_a_flush_that_went_with_its_connection_is_not_waited_for(clock: SimpleNamespace) -> None:
    worker = Stood()
    worker.on_send_event_buffered()
    clock.now += FLUSH_SECONDS
    worker.on_send_event_buffered()
    assert len(worker.hub.calls) == 2


def test_celery_takes_ours_and_gives_what_is_left_at_the_end(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scheduler_project.celery import app

    assert app.conf.worker_consumer == f"{Consumer.__module__}:{Consumer.__qualname__}"
    worker = Stood()
    monkeypatch.setattr(consumer.CelerysConsumer, "shutdown", lambda self: None)
    worker.shutdown()
    assert worker.flushed == 1

"""Task events are sent only to listeners, and a turn of a worker's loop asks the system for each thing only once."""

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from kombu import Connection, Exchange, Producer, Queue

from jobs import broker
from scheduler_project.celery import app
from scheduler_project.worker import events
from scheduler_project.worker.events import DEAF_SECONDS, Dispatcher


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(events.time, "monotonic", lambda: found.now)
    return found


class Told:
    """A dispatcher with a producer that remembers what was published; ``listeners`` hear it."""

    def __init__(self, listeners: int | None) -> None:
        self.listeners = listeners
        self.published: list[Any] = []
        self.dispatcher = Dispatcher(app=app, hostname="w1", enabled=False, buffer_group=["task"])
        self.dispatcher.producer, self.dispatcher.enabled, self.dispatcher._closed = self, True, False
        self._channel = SimpleNamespace() if listeners is None else SimpleNamespace(heard={})

    def publish(self, event: Any, routing_key: str, **_: Any) -> None:
        self.published.append(event)
        if self.listeners is not None:
            self._channel.heard[routing_key] = self.listeners

    def types(self) -> list[str]:
        told = [one for event in self.published for one in (event if isinstance(event, list) else [event])]
        self.published.clear()
        return [event["type"] for event in told]

    def tell(self, *types: str) -> list[str]:
        for kind in types:
            self.dispatcher.send(kind, uuid="1")
        self.dispatcher.flush()
        return self.types()


class TestDispatcher:
    def test_is_the_one_celery_takes(self) -> None:
        assert issubclass(app.events.Dispatcher, Dispatcher)

    def test_spares_what_nobody_would_hear_and_tries_again_later(self, clock: SimpleNamespace) -> None:
        told = Told(listeners=0)
        assert told.tell("task-received", "task-started") == ["task-received", "task-started"]
        assert told.tell("task-succeeded", "task-received") == []
        clock.now += DEAF_SECONDS
        told.listeners = 1
        assert told.tell("task-started") == ["task-started"]
        assert told.tell("task-succeeded") == ["task-succeeded"]

    @pytest.mark.parametrize("listeners", [1, None], ids=["heard", "of another broker"])
    def test_tells_all_where_somebody_may_listen(self, clock: SimpleNamespace, listeners: int | None) -> None:
        told = Told(listeners)
        assert told.tell("task-received") == told.tell("task-received") == ["task-received"]

    def test_tells_of_the_worker_itself_always(self, clock: SimpleNamespace) -> None:
        told = Told(listeners=0)
        told.tell("task-received")
        assert told.tell("worker-heartbeat") == ["worker-heartbeat"]

    def test_does_not_spend_its_time_on_telling_a_slow_broker(
        self, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = Told(listeners=1)
        quick = told.publish

        def slow(*args: Any, **options: Any) -> None:
            clock.now += 2.0
            quick(*args, **options)

        monkeypatch.setattr(told, "publish", slow)
        began = clock.now
        heard: list[str] = []
        while clock.now < began + 100:
            heard += told.tell("worker-heartbeat", "task-received")
            clock.now += 0.25
        assert 2 <= len(heard) <= 4
        assert told.tell("worker-offline") == ["worker-offline"]

    def test_tells_always_what_a_pools_thread_has_to_say(self, clock: SimpleNamespace) -> None:
        told = Told(listeners=0)
        told.tell("task-received")
        thread = threading.Thread(target=told.dispatcher.send, args=("task-succeeded",))
        thread.start()
        thread.join()
        assert told.tell() == ["task-succeeded"]


def test_a_channel_knows_how_many_heard() -> None:
    broker.use_for_redis()
    fanout = Exchange(f"heard-{os.getpid()}", type="fanout")
    url = settings.CELERY_BROKER_URL
    with Connection(url) as told, Connection(url) as listening:
        producer = Producer(told.channel(), exchange=fanout)
        producer.publish([1], routing_key="task.multi")
        assert producer.channel.heard == {"task.multi": 0}
        with listening.Consumer(Queue("", fanout, routing_key="#", exclusive=True), callbacks=[print]):
            listening.drain_events(timeout=10)  # Redis has answered that the consumer is subscribed
            producer.publish([2], routing_key="task.multi")
            assert producer.channel.heard == {"task.multi": 1}


class Hub:
    """A loop that remembers its requests to the system."""

    def __init__(self) -> None:
        self.readers: dict[int, Any] = {}
        self.asked: list[str] = []

    def add_reader(self, fd: int, callback: Any, *args: Any) -> None:
        self.asked.append(f"read {fd}")
        self.readers[fd] = callback, args


def test_a_socket_is_told_of_once_and_again_when_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(broker.time, "monotonic", lambda: clock.now)
    hub = Hub()
    told = broker._Told(hub)
    for _ in range(3):
        told.add_reader(3, print, 3)
        told.add_reader(4, print, 4)
    assert hub.asked == ["read 3", "read 4"]
    del told.readers[4]
    told.add_reader(4, print, 4)
    clock.now += broker.REPEAT_SECONDS
    for _ in range(3):
        told.add_reader(3, print, 3)
        told.add_reader(4, print, 4)
    assert hub.asked[2:] == ["read 4", "read 3", "read 4"]

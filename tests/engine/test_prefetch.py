"""A worker takes as many messages from Redis at once as it will soon start."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery.worker import state
from kombu import Queue
from redis.exceptions import ResponseError

from jobs.broker import Room
from scheduler_project.celery import app
from scheduler_project.worker import consumer
from scheduler_project.worker.consumer import (
    BRISK_PER_SECOND,
    MAX_AT_ONCE,
    MEASURE_SECONDS,
    SLOW_SECONDS,
    Pace,
    Prefetch,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(consumer.time, "monotonic", lambda: found.now)
    return found


class TestPrefetch:
    """Prefetch of a worker with two processes."""

    @pytest.fixture
    def reserved(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        found: list[int] = []
        monkeypatch.setattr(consumer.state, "reserved_requests", found)
        monkeypatch.setattr(consumer.state, "all_total_count", [0])
        return found

    @staticmethod
    def started(driver: str = "redis") -> SimpleNamespace:
        worker = SimpleNamespace(
            connection=SimpleNamespace(transport=SimpleNamespace(driver_type=driver)),
            task_consumer=SimpleNamespace(
                channel=SimpleNamespace(qos=SimpleNamespace(can_consume=lambda: True))
            ),
            controller=SimpleNamespace(max_concurrency=None),
            pool=SimpleNamespace(num_processes=2),
        )
        Prefetch(worker).start(worker)
        return worker.task_consumer.channel.qos

    def test_takes_no_more_than_its_processes_at_first(
        self, clock: SimpleNamespace, reserved: list[int]
    ) -> None:
        qos = self.started()
        assert qos.can_consume()
        reserved += [1, 2]
        assert not qos.can_consume()

    def test_takes_one_ahead_for_each_while_messages_are_short_and_no_longer(
        self, clock: SimpleNamespace, reserved: list[int]
    ) -> None:
        qos = self.started()
        reserved += [1, 2, 3]
        state.all_total_count[0] += 2 * BRISK_PER_SECOND
        clock.now += MEASURE_SECONDS
        assert qos.can_consume()
        reserved.append(4)
        assert not qos.can_consume()
        reserved.pop()
        clock.now += MEASURE_SECONDS
        assert not qos.can_consume()

    @pytest.mark.parametrize(
        ("processes", "kept", "ordinary", "urgent", "only"),
        [(2, 1, 0, 1, False), (2, 1, 1, 0, True), (8, 2, 5, 2, False), (8, 2, 6, 0, True), (2, 9, 0, 0, False),
         (2, 9, 1, 0, True), (1, 1, 0, 0, False), (1, 1, 1, 0, False)],
    )  # fmt: skip
    def test_keeps_processes_for_urgent_messages_but_never_the_last(
        self,
        reserved: list[Any],
        settings: Any,
        processes: int,
        kept: int,
        ordinary: int,
        urgent: int,
        only: bool,
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": kept})
        worker = SimpleNamespace(
            connection=SimpleNamespace(transport=SimpleNamespace(driver_type="redis")),
            task_consumer=SimpleNamespace(
                channel=SimpleNamespace(qos=SimpleNamespace(can_consume=lambda: True))
            ),
            controller=SimpleNamespace(max_concurrency=None),
            pool=SimpleNamespace(num_processes=processes),
        )
        Prefetch(worker).start(worker)
        reserved += [SimpleNamespace(delivery_info={"priority": 1})] * ordinary
        reserved += [SimpleNamespace(delivery_info={"priority": 0})] * urgent
        room = worker.task_consumer.channel.room()
        assert (room.ordinary < 1 <= room.messages) is only

    def test_leaves_other_brokers_to_their_own_count(
        self, clock: SimpleNamespace, reserved: list[int]
    ) -> None:
        qos = self.started("amqp")
        reserved += [1, 2, 3, 4]
        assert qos.can_consume()


class Asking:
    """A consumer of one queue in Redis: ``poll`` asks once, ``taken`` holds the bodies that came."""

    def __init__(self, ours: Any) -> None:
        self.queue = Queue(f"test-{uuid4()}", durable=False)
        self.taken: list[object] = []
        self.consumer = ours.Consumer(self.queue, callbacks=[lambda body, message: self.take(body)])
        self.channel = self.consumer.channel
        self.consumer.consume()
        self._producer = ours.Producer(self.channel)

    def take(self, body: object) -> None:
        self.taken.append(body)
        if body == "bad":
            raise LookupError("no such thing")

    def put(self, body: object, priority: int = 0) -> None:
        self._producer.publish(body, routing_key=self.queue.name, exchange="", priority=priority)

    @contextmanager
    def no_list(self) -> Iterator[None]:
        """The queue's second list is a string meanwhile."""
        key = self.channel._q_for_pri(self.queue.name, 1)
        with self.channel.conn_or_acquire() as client:
            client.set(key, "no list")
            yield
            client.delete(key)

    def poll(self) -> None:
        self.consumer.connection.transport.cycle._register_BRPOP(self.channel)
        with suppress(Empty):
            self.channel._brpop_read()


class TestAnAnswer:
    """An answer of Redis's brings as many messages as there is room for."""

    @pytest.fixture
    def asking(self) -> Iterator[Asking]:
        options = app.conf.broker_transport_options | {"priority_steps": [0, 1]}
        with app.connection(transport_options=options) as ours:
            yield Asking(ours)

    def test_brings_them_in_order(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(3, 3)
        for n in range(5):
            asking.put(n)
        asking.poll()
        assert asking.taken == [0, 1, 2]
        asking.poll()
        assert asking.taken == [0, 1, 2, 3, 4]

    def test_brings_one_where_nobody_says_how_many(self, asking: Asking) -> None:
        for n in range(2):
            asking.put(n)
        asking.poll()
        assert asking.taken == [0]

    def test_comes_from_the_first_lists_alone_while_only_urgent_ones_may_start(self, asking: Asking) -> None:
        room = [Room(2, 0)]
        asking.channel.room = lambda: room[0]
        for body, priority in (("low", 1), ("critical", 0)):
            asking.put(body, priority)
        for _ in range(2):
            asking.poll()
        assert asking.taken == ["critical"]
        room[0] = Room(2, 1)
        asking.poll()
        assert asking.taken == ["critical", "low"]
        assert asking.channel.priority_steps == [0, 1]

    def test_brings_no_more_ordinary_ones_than_may_start(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(3, 1)
        for n in range(2):
            asking.put(n, priority=1)
        asking.poll()
        assert asking.taken == [0]

    def test_is_taken_whole_though_one_entry_is_no_message(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(3, 3)
        asking.put("first")
        with asking.channel.conn_or_acquire() as client:
            client.lpush(asking.queue.name, b"{not json")
        asking.put("last")
        asking.poll()
        assert asking.taken == ["first", "last"]

    def test_is_taken_whole_though_one_message_fails(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(3, 3)
        for body in ("first", "bad", "last"):
            asking.put(body)
        with pytest.raises(LookupError):
            asking.poll()
        assert asking.taken == ["first", "bad", "last"]

    def test_brings_urgent_ones_before_others(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(4, 3)
        for body, priority in (("low", 1), ("lower", 1), ("lowest", 1), ("critical", 0), ("high", 0)):
            asking.put(body, priority)
        asking.poll()
        assert asking.taken == ["critical", "high", "low", "lower"]

    def test_is_taken_whole_though_a_key_is_no_list(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(4, 4)
        for n in range(2):
            asking.put(n)
        with asking.no_list():
            asking.poll()
        assert asking.taken == [0, 1]

    def test_is_read_to_its_end_though_redis_refused_the_question(self, asking: Asking) -> None:
        asking.channel.room = lambda: Room(4, 4)
        with asking.no_list(), pytest.raises(ResponseError):
            asking.poll()
        for n in range(2):
            asking.put(n)
        asking.poll()
        assert asking.taken == [0, 1]


class TestPace:
    """The pace of a pool with two processes."""

    @staticmethod
    def note(pace: Pace, seconds: float, got: int, at_hand: int = 0) -> None:
        pace.note_answer(seconds, 2, asked=pace.room(2, at_hand=0), got=got, at_hand=at_hand)

    def test_asks_a_slow_broker_for_more_as_long_as_all_have_ended_by_the_next_answer(self) -> None:
        pace, asked = Pace(), []
        for _ in range(5):
            asked.append(room := pace.room(2, at_hand=0))
            self.note(pace, SLOW_SECONDS, got=room)
        assert asked == [2, 4, 8, 16, 2 * MAX_AT_ONCE]
        assert pace.room(2, at_hand=2 * MAX_AT_ONCE) == 2 * MAX_AT_ONCE
        assert pace.room(2, at_hand=4 * MAX_AT_ONCE) == 0
        self.note(pace, SLOW_SECONDS, got=16, at_hand=3)
        assert pace.room(2, at_hand=0) == 8

    def test_asks_for_no_more_than_may_start_when_the_broker_is_quick_again(self) -> None:
        pace = Pace()
        for _ in range(3):
            self.note(pace, SLOW_SECONDS, got=pace.room(2, at_hand=0))
        self.note(pace, SLOW_SECONDS / 2, got=16)
        assert (pace.room(2, at_hand=0), pace.room(2, at_hand=2)) == (2, 0)

    def test_takes_no_empty_queue_for_a_slow_broker(self) -> None:
        pace = Pace()
        for _ in range(3):
            self.note(pace, 5 * SLOW_SECONDS, got=1)
        assert pace.room(2, at_hand=0) == 2

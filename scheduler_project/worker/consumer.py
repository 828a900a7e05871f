"""Celery's consumer, without the steps that cost a worker more than all its other work for a message (docs/adr/0019).

Task events are published a few times a second, not after every message; no viewer looks more closely. While messages
are short, each process has its next message ready and does not idle until the broker answers. A worker that stops gives
unstarted messages back at once. Named by ``CELERY_WORKER_CONSUMER``; ``Prefetch`` takes the place of
``worker_disable_prefetch``.
"""

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any, cast

from amqp.exceptions import AMQPNotImplementedError
from celery import bootsteps
from celery.utils.quorum_queues import detect_quorum_queues
from celery.worker import state
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer import consumer as complaints
from celery.worker.consumer.tasks import Tasks
from django.conf import settings
from kombu.common import ignore_errors
from kombu.log import get_logger

from jobs.broker import Room
from jobs.telemetry import Outage

log = get_logger(__name__)
_outage = Outage("broker away")
FLUSH_SECONDS = 0.25
#: Events in one message at most: some 100 kB.
MAX_EVENTS = 240
#: A process that starts so many messages a second is soon free for another message.
BRISK_PER_SECOND = 20
MEASURE_SECONDS = 0.25
#: A broker that takes longer to answer is slow; it is asked for so many messages for each process, at most.
SLOW_SECONDS, MAX_AT_ONCE = 0.1, 8


#: Celery's log messages about foreign messages, which show the whole content, and their replacements.
TELLING = {
    complaints.UNKNOWN_FORMAT: "message dropped: no message of Celery's",
    complaints.UNKNOWN_TASK_ERROR: "message dropped: no such task: %s",
    complaints.INVALID_TASK_ERROR: "message dropped: an invalid task",
    complaints.MESSAGE_DECODE_ERROR: "message dropped: it cannot be decoded",
}


def without_contents(record: logging.LogRecord) -> bool:
    """A filter of Celery's log: a message in the wrong queue may hold credentials."""
    if (said := TELLING.get(str(record.msg))) is not None:
        record.msg, record.exc_info = said, None
        record.args = tuple(record.args or ())[: said.count("%s")]
    return True


def as_an_outage(record: logging.LogRecord) -> bool:
    """A filter of Celery's log: an absent broker is reported like all outages, not at every try."""
    args = record.args if isinstance(record.args, tuple) else ()
    if record.msg == complaints.CONNECTION_ERROR or complaints.CONNECTION_RETRY in args:
        _outage.failed(cast(BaseException, args[1]))
        return False
    return True


for _filter in (without_contents, as_an_outage):
    logging.getLogger(complaints.__name__).addFilter(_filter)


class Consumer(CelerysConsumer):
    """Buffers task events for ``FLUSH_SECONDS``, or until there are ``MAX_EVENTS``; see ``Prefetch`` for messages.

    When it is told to stop, it gives back the messages that it has taken and no process has begun. Celery would forget
    these messages, and give them back with the channel when the last handler at work has ended. Other workers would
    idle for as long. If a process has begun such a message after all, one of the two claims is refused.
    """

    class Blueprint(CelerysConsumer.Blueprint):  # type: ignore[misc]
        default_steps = (*CelerysConsumer.Blueprint.default_steps, f"{__name__}:Prefetch")

    _flush_at = 0.0
    #: Whether the broker counts the messages at hand for each queue's consumer, and not for the whole worker.
    prefetch_by_queue = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for step in self.steps:
            if isinstance(step, Tasks):
                step.qos_global = partial(count_prefetch, celerys=step.qos_global)

    def connect(self) -> Any:
        connected = super().connect()
        _outage.over()
        return connected

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Quorum queues refuse a prefetch count for the worker, and end the connection. The next one has it by queue.

        Celery knows quorum queues by its own declarations (CARILLON_QUEUE_TYPE). Our queues may also be quorum queues
        by the default of the vhost.
        """
        if isinstance(exc, AMQPNotImplementedError) and "global qos" in str(exc):
            self.prefetch_by_queue = True
            log.info("Quorum queues: the prefetch count is for each queue from now on.")
        super().on_connection_error_after_connected(exc)

    def on_send_event_buffered(self) -> None:
        if not self.hub:
            return
        if threading.current_thread() is threading.main_thread():
            self._plan_to_flush()
        else:
            # A thread of a pool: the loop must wake up to see that a thread is free.
            self.hub.call_soon(self._plan_to_flush)

    def _plan_to_flush(self) -> None:
        # Decided by the clock, not by a flag: a lost connection may remove the timer's entry.
        now = time.monotonic()
        if now >= self._flush_at and self.event_dispatcher:
            self._flush_at = now + FLUSH_SECONDS
            self.event_dispatcher.buffer_limit = MAX_EVENTS
            self.hub.call_later(FLUSH_SECONDS, self._flush_events)

    def on_close(self) -> None:
        # Compared by identity: the exit status that it holds may be 0.
        stopping = state.should_stop is not None and state.should_stop is not False
        if stopping and self.task_consumer:
            ignore_errors(self, self.task_consumer.cancel)
            for request in set(state.reserved_requests) - set(state.active_requests):
                request.message.reject_log_error(log, self.connection_errors, requeue=True)
            if self.connection.transport.driver_type == "redis":
                ignore_errors(self, partial(end_poll, self.task_consumer.channel))
        super().on_close()

    def shutdown(self) -> None:
        self._flush_events()
        super().shutdown()


def count_prefetch(consumer: Consumer, *, celerys: Callable[[Any], bool]) -> bool:
    """Whether the prefetch count is for the whole worker. Else the queues share it, with at least one each."""
    declared, _ = detect_quorum_queues(consumer.app, consumer.connection.transport.driver_type)
    if not (consumer.prefetch_by_queue or declared):
        return celerys(consumer)
    queues = len(consumer.app.amqp.queues.consume_from)
    consumer.initial_prefetch_count = max(1, consumer.max_prefetch_count // max(1, queues))
    return False


def end_poll(channel: Any) -> None:
    """Wait for the answer to the channel's outstanding question. There is no consumer any more, so kombu requeues its
    messages.

    Redis answers within kombu's ``brpop_timeout``. A Redis that does not is away, and closing the channel handles that.
    """
    asked = channel._in_poll
    if not (asked and asked._sock and select.select([asked._sock], [], [], channel.brpop_timeout + 1)[0]):
        return
    with suppress(Empty):
        channel._brpop_read()


class Prefetch(bootsteps.StartStopStep):  # type: ignore[misc]
    """On Redis, take no more messages than the pool has processes, or twice as many while the messages are short.

    No other worker can start a message that this one has taken. So it takes only as many as it will soon start. For
    brokers with a prefetch count of their own (RabbitMQ), ``worker_prefetch_multiplier`` sets the number.

    A worker whose messages end before Redis has answered its next question asks for more of them at once (``Pace``).

    With ``CARILLON_RESERVED_SLOTS`` it leaves so many processes to urgent messages: it takes no more ordinary messages
    than the other processes can start. With two processes or more, one is always left to ordinary messages.
    """

    requires = (Tasks,)

    def start(self, consumer: Any) -> None:
        if consumer.connection.transport.driver_type != "redis":
            return
        channel, pace = consumer.task_consumer.channel, Pace()
        qos, celerys = channel.qos, channel.qos.can_consume

        def count_processes() -> int:
            return getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes

        def room() -> Room:
            processes = count_processes()
            most = pace.room(processes, at_hand=len(state.reserved_requests))
            kept = min(reserved_slots, processes - 1)
            return Room(most, processes - kept - count_ordinary() if kept > 0 else most)

        def can_consume() -> bool:
            return room().messages > 0 and bool(celerys())

        def note_answer(seconds: float, *, asked: int, got: int) -> None:
            at_hand = len(state.reserved_requests)
            pace.note_answer(seconds, count_processes(), asked=asked, got=got, at_hand=at_hand)

        reserved_slots = settings.CARILLON.reserved_slots
        qos.can_consume = can_consume
        channel.room, channel.note_answer = room, note_answer


def count_ordinary() -> int:
    """Messages at hand that are not urgent."""
    return sum(bool(request.delivery_info.get("priority")) for request in state.reserved_requests)


class Pace:
    """How many messages a pool may have at hand, by how soon they end.

    Short messages, by the number that its processes start in a second, measured every ``MEASURE_SECONDS``: one ahead
    for each process. And many at once from a slow broker, as long as all of them end before it answers again.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._count = state.all_total_count[0]
        self._rate = 0.0
        #: How many messages for each process a slow broker is asked for; 1: it is not slow.
        self._at_once = 1

    def room(self, processes: int, *, at_hand: int) -> int:
        """How many more messages the pool may be given now."""
        if self._at_once > 1:
            # Those at hand will have ended when the answer comes, or else fewer are asked for from then on.
            share = processes * self._at_once
            return min(share, 2 * share - at_hand)
        return (2 if self.is_brisk(processes) else 1) * processes - at_hand

    def note_answer(self, seconds: float, processes: int, *, asked: int, got: int, at_hand: int) -> None:
        """Note an answer of the broker's, after ``seconds``, before its messages are at hand.

        An answer that waited for a message in an empty queue is slow too, but brings only that message.
        """
        if seconds < SLOW_SECONDS:
            self._at_once = 1
        elif got == asked and not at_hand:
            self._at_once = min(2 * self._at_once, MAX_AT_ONCE)
        elif got <= asked // 2 or at_hand > processes:
            self._at_once = max(1, self._at_once // 2)

    def is_brisk(self, processes: int) -> bool:
        """Whether each of the processes starts ``BRISK_PER_SECOND`` or more."""
        now = time.monotonic()
        if now >= self._since + MEASURE_SECONDS:
            count = state.all_total_count[0]
            self._rate = (count - self._count) / (now - self._since)
            self._since, self._count = now, count
        return self._rate >= BRISK_PER_SECOND * processes

"""Celery's consumer, but for what cost a worker more than all else it does for a message (docs/adr/0019).

Task events are published a few times a second, not after every message; nobody watches more closely. While messages are
short, each process has its next one at hand, instead of idling until the broker was asked for it. The loop asks nothing
of the system that must fail. And a worker that stops gives back at once what nobody has begun.
Named by ``CELERY_WORKER_CONSUMER``; ``Prefetch`` takes the place of ``worker_disable_prefetch``.
"""

import select
import threading
import time
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any

from celery import bootsteps
from celery.worker import state
from celery.worker.consumer import Consumer as CelerysConsumer
from celery.worker.consumer.tasks import Tasks
from kombu.common import ignore_errors
from kombu.log import get_logger

log = get_logger(__name__)

FLUSH_SECONDS = 0.25
#: Events in one message at most: some 100 kB.
MOST_EVENTS = 240
#: A process that starts so many messages a second is soon free for another.
BRISK_PER_SECOND = 20
MEASURE_SECONDS = 0.25


class Consumer(CelerysConsumer):
    """Buffers task events for ``FLUSH_SECONDS``, or until there are ``MOST_EVENTS``; see ``Prefetch`` for messages.

    Told to stop, it gives back what it has taken and no process has begun. Celery would forget these messages, and give
    them back with the channel, when the last handler at work has ended; others would idle for as long. Should a process
    have begun one after all, one of the two claims is refused.
    """

    class Blueprint(CelerysConsumer.Blueprint):  # type: ignore[misc]
        default_steps = (*CelerysConsumer.Blueprint.default_steps, f"{__name__}:Prefetch")

    _flush_at = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.hub:
            remove_no_writer_twice(self.hub)

    def on_send_event_buffered(self) -> None:
        if not self.hub:
            return
        if threading.current_thread() is threading.main_thread():
            self._plan_to_flush()
        else:
            # A thread of a pool: the loop has to wake up, for it to see that one is free.
            self.hub.call_soon(self._plan_to_flush)

    def _plan_to_flush(self) -> None:
        # By the clock, not by a flag: a lost connection may take the timer's entry with it.
        now = time.monotonic()
        if now >= self._flush_at and self.event_dispatcher:
            self._flush_at = now + FLUSH_SECONDS
            self.event_dispatcher.buffer_limit = MOST_EVENTS
            self.hub.call_later(FLUSH_SECONDS, self._flush_events)

    def on_close(self) -> None:
        # By identity: the exit status it holds may be 0.
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


def end_poll(channel: Any) -> None:
    """Wait for the answer to the channel's outstanding BRPOP. Nobody consumes any more, so kombu requeues a message.

    Redis answers within kombu's ``brpop_timeout``; one that does not is away, and closing the channel will see to it.
    """
    asked = channel._in_poll
    if not (asked and asked._sock and select.select([asked._sock], [], [], channel.brpop_timeout + 1)[0]):
        return
    with suppress(Empty):
        channel._brpop_read()


def remove_no_writer_twice(hub: Any) -> None:
    """In each turn of the loop, several times a message, the pool removes the writer of each idle process.

    As a rule there is none, and then the system is not asked to remove it either, only to fail.
    """
    remove_writer = hub.remove_writer

    def remove_if_there(fd: int) -> None:
        if fd in hub.writers:
            remove_writer(fd)

    hub.remove_writer = remove_if_there


class Prefetch(bootsteps.StartStopStep):  # type: ignore[misc]
    """On Redis, take no more than the pool has processes, or twice as many while their messages are short.

    What a worker has at hand nobody else can start: so only as much as will soon be started here. Brokers with a
    prefetch count of their own (RabbitMQ) have ``worker_prefetch_multiplier`` say it.
    """

    requires = (Tasks,)

    def start(self, consumer: Any) -> None:
        if consumer.connection.transport.driver_type != "redis":
            return
        qos, pace = consumer.task_consumer.channel.qos, Pace()
        celerys = qos.can_consume

        def can_consume() -> bool:
            processes = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
            most = 2 * processes if pace.is_brisk(processes) else processes
            return len(state.reserved_requests) < most and bool(celerys())

        qos.can_consume = can_consume


class Pace:
    """How many messages the pool's processes start in a second, measured every ``MEASURE_SECONDS``."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._count = state.all_total_count[0]
        self._rate = 0.0

    def is_brisk(self, processes: int) -> bool:
        """Whether each of them starts ``BRISK_PER_SECOND`` or more."""
        now = time.monotonic()
        if now >= self._since + MEASURE_SECONDS:
            count = state.all_total_count[0]
            self._rate = (count - self._count) / (now - self._since)
            self._since, self._count = now, count
        return self._rate >= BRISK_PER_SECOND * processes

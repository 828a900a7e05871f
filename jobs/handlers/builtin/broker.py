"""Reaching a queue of the broker: what ``celery_task`` and ``message`` share.

Keeps true: publishing waits a bounded time (one reconnect; the engine's retry policy does the rest) and works
on any queue, declared by this project or not. Messages go through the default exchange, whose routing key is
the queue's name, on Redis as on RabbitMQ. On RabbitMQ that exchange silently drops what no queue takes, so
the queue is looked up first; on Redis a queue is a list that comes into being with its first message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amqp.exceptions import NotFound
from celery import Celery
from kombu import Producer
from kombu.exceptions import LimitExceeded, OperationalError

from jobs.handlers.context import Context
from jobs.handlers.outcome import HandlerError

RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}


@contextmanager
def pooled_producer(app: Celery) -> Iterator[Producer]:
    """A producer of ``app``'s pool. Trouble with the broker inside becomes a retried failure ``broker``."""
    try:
        with app.producer_or_acquire() as producer:
            yield producer
    except (OperationalError, LimitExceeded, OSError) as error:
        raise HandlerError(f"The broker did not take the message: {error}", code="broker") from error


def has_queue(producer: Producer, queue: str) -> bool:
    """False when a message to ``queue`` would be dropped: no such queue on a broker that knows its queues.

    Asked on a channel of its own, because AMQP closes the channel on which a passive declaration fails.
    """
    connection = producer.connection
    if connection.transport.driver_type != "amqp":
        return True

    def look() -> None:
        with connection.channel() as channel:
            channel.queue_declare(queue=queue, passive=True)

    try:
        # A pooled connection that once failed has no channels until it is made to connect anew.
        connection.ensure_connection(**RETRY_POLICY)
        connection.ensure(producer, look, **RETRY_POLICY)()
    except NotFound:
        return False
    return True


def carillon_headers(ctx: Context) -> dict[str, Any]:
    """The ids a receiver needs to recognise a duplicate or to refuse a stale writer."""
    return {
        "carillon_tenant": ctx.tenant,
        "carillon_job": str(ctx.job_id),
        "carillon_trigger": str(ctx.trigger_id),
        "carillon_attempt": ctx.attempt_number,
        "carillon_scheduled_for": ctx.scheduled_for.isoformat(),
        "carillon_idempotency_key": ctx.idempotency_key,
        "carillon_fence": ctx.fence,
    }

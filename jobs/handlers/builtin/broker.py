"""Reaching a queue of the broker: the code that ``celery_task`` and ``message`` share.

Keeps true: publishing waits a bounded time (one reconnect; the engine's retry policy does the rest) and works
on any queue, declared by this project or not. Messages go through the default exchange, whose routing key is
the queue's name, on Redis as on RabbitMQ. On RabbitMQ that exchange silently drops messages that no queue takes, so
the queue is looked up first; on Redis a queue is a list that comes into being with its first message.

A queue that is never emptied holds no more than ``CARILLON_QUEUE_MAX_MESSAGES``. On Redis, whose memory all tenants
share, all queues of one tenant together hold no more than ``CARILLON_TENANT_QUEUE_BYTES``. Further messages are retried
by the job's policy. Writers that write at the same moment may exceed either bound by a message each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amqp.exceptions import NotFound
from celery import Celery
from kombu import Producer
from kombu.exceptions import ChannelError, LimitExceeded, OperationalError

from jobs.conf import engine_settings
from jobs.handlers.builtin.queues import may_write, refusal
from jobs.handlers.context import Context
from jobs.handlers.outcome import HandlerError, Permanent

#: The prefix, before the tenant's slug, of the key of the set of queues that the tenant writes to. No queue's name may
#: begin with a brace.
WRITTEN = "{carillon}:queues:"
#: Queues of one tenant that are not empty.
MAX_QUEUES = 100
_ROOM = Path(__file__).with_name("room.lua").read_text()
RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}


def check_queue(ctx: Context, queue: str) -> None:
    """Refuse a queue that the tenant may not write to, or no longer: grants may end after the job was written."""
    if not may_write(queue, tenant=ctx.tenant, granted=ctx.queues):
        raise Permanent(f"payload.queue: {refusal(queue, tenant=ctx.tenant)}", code="queue_refused")


@contextmanager
def pooled_producer(app: Celery) -> Iterator[Producer]:
    """A producer of ``app``'s pool. Trouble with the broker inside the block becomes a retried failure ``broker``."""
    try:
        with app.producer_or_acquire() as producer:
            yield producer
    except (OperationalError, ChannelError, LimitExceeded, OSError) as error:
        raise HandlerError(f"The broker did not take the message: {error}", code="broker") from error


def has_queue(producer: Producer, ctx: Context, queue: str) -> bool:
    """False when a message to ``queue`` would be dropped: no such queue on a broker that knows its queues.

    Raises ``HandlerError`` (``queue_full``) where there is no room for one more message of this tenant.
    """
    match producer.connection.transport.driver_type:
        case "redis":
            _check_room_in_redis(producer, ctx, queue)
            return True
        case "amqp":
            length = _length_on_amqp(producer, queue)
            if length is not None:
                _check_length(queue, length)
            return length is not None
    return True


def _check_room_in_redis(producer: Producer, ctx: Context, queue: str) -> None:
    settings, written = engine_settings(), WRITTEN + ctx.tenant
    bounds = (settings.queue_max_messages, settings.tenant_queue_bytes, MAX_QUEUES)

    def ask() -> list[Any]:
        with producer.channel.conn_or_acquire() as client:
            answer: list[Any] = client.eval(_ROOM, 1, written, queue, *bounds)
            return answer

    lacking, figure = producer.connection.ensure(producer, ask, **RETRY_POLICY)()
    match lacking.decode() if isinstance(lacking, bytes) else lacking:
        case "length":
            _check_length(queue, figure)
        case "bytes":
            raise _full(f"The queues that you write to have {figure:,} bytes of at most {bounds[1]:,}")
        case "queues":
            raise _full(f"You already write to {figure:,} queues that are not empty")
        case "type":
            raise HandlerError(f"The Redis key {queue!r} is not a queue.", code="broker")


def _length_on_amqp(producer: Producer, queue: str) -> int | None:
    """How many messages wait in the queue; None when there is no such queue.

    It asks on a channel of its own, because AMQP closes the channel on which a passive declaration fails.
    """
    connection = producer.connection

    def look() -> int:
        with connection.channel() as channel:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)

    try:
        # A pooled connection that once failed has no channels until it connects again.
        connection.ensure_connection(**RETRY_POLICY)
        return int(connection.ensure(producer, look, **RETRY_POLICY)())
    except NotFound:
        return None


def _check_length(queue: str, length: int) -> None:
    if length >= (most := engine_settings().queue_max_messages):
        raise _full(f"The queue {queue!r} holds {length:,} messages of at most {most:,}")


def _full(what: str) -> HandlerError:
    return HandlerError(f"{what}; once its consumers have taken some, this goes on.", code="queue_full")


def carillon_headers(ctx: Context) -> dict[str, Any]:
    """The ids by which a receiver recognises a duplicate or refuses a stale writer, and the trace of the attempt."""
    return {
        **(ctx.trace.headers() if ctx.trace is not None else {}),
        "carillon_tenant": ctx.tenant,
        "carillon_job": str(ctx.job_id),
        "carillon_trigger": str(ctx.trigger_id),
        "carillon_attempt": ctx.attempt_number,
        "carillon_scheduled_for": ctx.scheduled_for.isoformat(),
        "carillon_idempotency_key": ctx.idempotency_key,
        "carillon_fence": ctx.fence,
    }

"""Publishing messages to the broker: one connection, one pipelined batch, every wait bounded.

Messages are plain Celery protocol 2 with the few headers that a worker reads. Building them by hand instead of with
``apply_async`` makes publishing several times cheaper, and for Redis their envelopes too (docs/adr/0019). After any
error the connection is dropped. Messages that a half-sent batch left behind carry fences that are spent once the
dispatcher hands the triggers back. Redis answers when it has them. RabbitMQ is asked to confirm (``confirms``), and a
batch is published when RabbitMQ has confirmed all of it.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from celery import Celery
from kombu import Connection, Producer
from kombu.exceptions import KombuError

from jobs.activity import count
from jobs.broker import Channel
from jobs.engine.confirms import Confirms
from jobs.engine.dispatcher import Message, PublishError
from jobs.models.fields import new_id
from jobs.telemetry import Outage, get_logger

log = get_logger()
#: After a failed connect, how long the broker counts as away before the next try.
RETRY_AFTER_SECONDS = 1.0
#: With another way for messages, trying takes at most one part in this many of the time: each try at a broker that
#: hangs waits for seconds.
TRYING_PART = 10
#: A broker that takes longer than this for one batch of messages is slow.
SLOW_SECONDS = 0.1
AMQP = ("amqp", "pyamqp")
#: Time for RabbitMQ to have a whole batch on its disks.
CONFIRM_SECONDS = 5.0
_EMBED: dict[str, None] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class Publisher:
    """Publishes to the queues of ``app``'s broker; not thread-safe, one per process.

    ``instead`` takes messages while the broker is away; None: nothing can be published then.
    """

    def __init__(self, app: Celery, *, instead: Callable[[Sequence[Message]], None] | None = None) -> None:
        self._app = app
        self._instead = instead
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._confirms: Confirms | None = None
        self._retry_at = 0.0
        self._took_seconds = 0.0
        self._outage = Outage("broker away")

    def ready(self) -> bool:
        """True when messages can be published."""
        return self._connected() or self._instead is not None

    def is_slow(self) -> bool:
        """Whether the broker took long for the last messages. Workers then wait as long for each message."""
        return self._took_seconds > SLOW_SECONDS

    def _connected(self) -> bool:
        """Whether the broker is connected; tries at most once a second, with a bounded wait."""
        if self._producer is not None:
            return True
        since = time.monotonic()
        if since < self._retry_at:
            return False
        try:
            self._connect()
        except self._failures() as error:
            self.close()
            now = time.monotonic()
            wait = RETRY_AFTER_SECONDS if self._instead is None else (now - since) * TRYING_PART
            self._retry_at = now + max(RETRY_AFTER_SECONDS, wait)
            self._outage.failed(error, fallback=self._instead is not None)
            return False
        self._outage.over()
        return True

    def _failures(self) -> tuple[type[BaseException], ...]:
        """Errors of a channel count, too: RabbitMQ refuses a queue that exists already with another type."""
        broker = self._app.connection_for_write()
        return (OSError, KombuError, *broker.connection_errors, *broker.channel_errors)

    def _connect(self) -> None:
        # Otherwise each message's confirm would be waited for (CELERY_BROKER_TRANSPORT_OPTIONS).
        together = {"confirm_publish": False} if self._app.conf.broker_url.startswith(AMQP) else {}
        self._connection = self._app.connection_for_write(connect_timeout=2, transport_options=together)
        self._connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=3)
        channel = self._connection.channel()
        for queue in self._app.conf.task_queues:
            queue(channel).declare()
        self._confirms = Confirms(channel) if together else None
        self._producer = Producer(channel, auto_declare=False)
        log.info("broker connected")

    def __call__(self, messages: Sequence[Message]) -> None:
        """Publish all messages, pipelined where the transport can. Raises ``PublishError``; some may be sent then."""
        if not self._connected() or self._producer is None or self._connection is None:
            if self._instead is None:
                count("publish_failures")
                raise PublishError("not connected")
            self._instead(messages)
            return
        began = time.monotonic()
        try:
            if isinstance(self._producer.channel, Channel):
                self._producer.channel.push(_envelopes(messages))
            else:
                with self._producer.batch(max_size=1000):
                    for message in messages:
                        self._send(message)
            if self._confirms is not None:
                self._confirms.wait(seconds=CONFIRM_SECONDS)
            self._took_seconds = time.monotonic() - began
        except self._failures() as error:
            self.close()
            count("publish_failures")
            raise PublishError(str(error) or type(error).__name__) from error

    def _send(self, message: Message) -> None:
        assert self._producer is not None
        headers = _headers(message)
        self._producer.publish(
            _body(message),
            serializer="json",
            routing_key=headers["task"],
            exchange="",
            headers=headers,
            correlation_id=headers["id"],
            priority=_priority(message),
            retry=False,
        )
        if self._confirms is not None:
            self._confirms.expect()

    def close(self) -> None:
        """Drop the connection without waiting for it."""
        connection, self._connection = self._connection, None
        self._producer = self._confirms = None
        if connection is not None:
            connection.release()


def _envelopes(messages: Sequence[Message]) -> Mapping[tuple[str, int], Sequence[bytes]]:
    """The messages as kombu stores them in Redis, by queue and priority."""
    lists: dict[tuple[str, int], list[bytes]] = {}
    for message in messages:
        headers, priority = _headers(message), _priority(message)
        task, task_id = headers["task"], headers["id"]
        envelope = {
            "body": b64encode(orjson.dumps(_body(message))).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": task},
                "priority": priority,
                "body_encoding": "base64",
                "delivery_tag": task_id,
            },
        }
        lists.setdefault((task, priority), []).append(orjson.dumps(envelope))
    return lists


def _headers(message: Message) -> dict[str, str]:
    task_id = str(new_id())  # its time tells the admin where to look for the attempts
    return {"lang": "py", "task": f"jobs.{message.job_type}", "id": task_id, "argsrepr": _words_of(message)}


def _body(message: Message) -> tuple[Any, ...]:
    return ([[(str(token.id), token.fence) for token in message.tokens]], {}, _EMBED)


def _priority(message: Message) -> int:
    """On Redis, the first or the second list of the queue (CELERY_BROKER_TRANSPORT_OPTIONS)."""
    return 0 if message.urgent else 1


def _words_of(message: Message) -> str:
    """The task's arguments as Flower shows them: the admin finds the trigger, and its job, by the id."""
    count, first = len(message.tokens), message.tokens[0].id
    return f"{message.job_type}: " + (
        f"1 trigger, {first}" if count == 1 else f"{count} triggers, first {first}"
    )

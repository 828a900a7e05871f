"""Redis as a broker, without its one weakness: an entry of a queue that is no message would end the whole worker.

Nobody but us writes to our queues, or so one hopes. What is no JSON, or no envelope of kombu's, is dropped with a word
in the log; what an envelope may hold is checked in ``jobs.tasks``. Errors of anything else come out as before. It also
knows how many heard a broadcast, and does not register in each turn of a loop what it has registered (docs/adr/0019).
``BrokerMemory`` notices that it was emptied.
"""

import binascii
import time
from collections.abc import Callable
from json import JSONDecodeError
from typing import Any, cast
from uuid import uuid4

from django.conf import settings
from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import TRANSPORT_ALIASES, redis
from kombu.utils.json import dumps
from redis.exceptions import RedisError

from jobs.conf import engine_settings
from jobs.telemetry import Outage, get_logger, shape_of

log = get_logger()
_outage = Outage("broker away")
_PATIENCE_SECONDS = 2
#: What the loop should know already is told to it again this often: a socket may have got the number of one that the
#: loop was not told is closed, and the system forgets a closed one.
REPEAT_SECONDS = 1.0
#: How long Redis waits for an urgent message while a worker may take no other.
ASK_AGAIN_SECONDS = 0.01


#: What shows that Redis was not emptied. No queue's name may begin with a brace, even if granted.
MARK = "{carillon}:mark"
_LOOK_SECONDS = 0.25
_IN_NO_TIME = {"socket_timeout": _LOOK_SECONDS, "socket_connect_timeout": _LOOK_SECONDS}


def _never() -> bool:
    return False


class Channel(redis.Channel):
    """kombu's. ``heard``: by how many each last broadcast was received, by its routing key. While ``only_urgent`` says
    so, nothing is taken from the queues' second lists."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heard: dict[str, int] = {}
        self.only_urgent: Callable[[], bool] = _never

    def _brpop_start(self, timeout: float | None = None) -> None:
        steps = self.priority_steps
        if len(steps) > 1 and self.only_urgent():
            # A slot may be free again any moment, and what is asked cannot be taken back.
            self.priority_steps, timeout = steps[:1], ASK_AGAIN_SECONDS
        try:
            super()._brpop_start(timeout)
        finally:
            self.priority_steps = steps

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **kwargs: Any) -> None:
        if kwargs.get("_publish_batch") is not None:  # Redis answers later, and not us
            super()._put_fanout(exchange, message, routing_key, **kwargs)
            return
        text, topics = dumps(message), self._get_publish_topics(exchange, routing_key)
        with self.conn_or_acquire() as client:
            self.heard[routing_key] = sum([client.publish(topic, text) for topic in topics])


class Transport(redis.Transport):
    """kombu's, for queues that hold anything at all."""

    Channel = Channel

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        super().register_with_event_loop(connection, _Told(loop))

    def on_readable(self, *ready: Any) -> None:
        try:
            super().on_readable(*ready)
        except (JSONDecodeError, UnicodeDecodeError, binascii.Error) as error:
            log.warning("message dropped", error=f"no JSON: {error}")

    def _deliver(self, message: Any, queue: str) -> None:
        if _is_envelope(message):
            super()._deliver(message, queue)
        else:
            log.warning("message dropped", queue=queue, entry=shape_of(message), error="no envelope")


class _Told:
    """A worker's event loop, told of each socket once. kombu does so in each turn, several times a message, and each
    time two calls of the system's come of it.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._repeat_at: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_reader(self, fd: int, callback: Callable[..., Any], *args: Any) -> None:
        now = time.monotonic()
        if now >= self._repeat_at.get(fd, 0.0):
            self._repeat_at[fd] = now + REPEAT_SECONDS
        elif self._loop.readers.get(fd) == (callback, args):
            return
        self._loop.add_reader(fd, callback, *args)


def _is_envelope(message: Any) -> bool:
    properties = message.get("properties") if isinstance(message, dict) else None
    return (
        isinstance(properties, dict)
        and isinstance(message.get("body"), str)
        and isinstance(message.get("headers"), dict)
        and isinstance(properties.get("delivery_tag"), str)
        and isinstance(properties.get("delivery_info"), dict)
    )


def use_for_redis() -> None:
    """Make it the transport of ``redis://`` and ``rediss://`` in this process. May be repeated."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"


def broker_answers() -> bool:
    """Whether a connection to the broker can be made, within two seconds or so."""
    options = dict(getattr(settings, "CELERY_BROKER_TRANSPORT_OPTIONS", {}))
    if "socket_timeout" in options:
        options |= {"socket_timeout": _PATIENCE_SECONDS, "socket_connect_timeout": _PATIENCE_SECONDS}
    broker = Connection(
        settings.CELERY_BROKER_URL, connect_timeout=_PATIENCE_SECONDS, transport_options=options
    )
    try:
        with broker:
            broker.connect()
    except (*broker.connection_errors, *broker.channel_errors, OSError) as error:
        _outage.failed(type(error)())
        return False
    _outage.over()
    return True


class BrokerMemory:
    """Whether Redis still has what was published: emptied, or back without its file, it has lost all messages.

    A mark in it tells. Not thread-safe, and no longer than ``_LOOK_SECONDS`` for each of three answers. A Redis that is
    away has forgotten nothing as far as is known; nor does a broker of another kind.
    """

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._channel: Any = None
        self._known: bytes | None = None

    def forgot(self) -> bool:
        """Whether it was emptied since this was last asked."""
        if not settings.CELERY_BROKER_URL.startswith(("redis", "sentinel")):
            return False
        try:
            mark = self._mark()
        except (OSError, KombuError, RedisError):
            self._close()
            return False
        known, self._known = self._known, mark
        return known is not None and mark != known

    def _mark(self) -> bytes | None:
        """The mark that is there, or one that is put there now."""
        if self._channel is None:
            options = settings.CELERY_BROKER_TRANSPORT_OPTIONS | _IN_NO_TIME
            self._connection = Connection(settings.CELERY_BROKER_URL, transport_options=options)
            self._connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=_LOOK_SECONDS)
            self._channel = self._connection.channel()
        with self._channel.conn_or_acquire() as client:
            if (mark := client.get(MARK)) is None:
                client.set(MARK, uuid4().hex, nx=True)
                mark = client.get(MARK)
        return cast(bytes | None, mark)

    def _close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            connection.release()


def carriers() -> dict[str, str]:
    """Where messages go, and where rates are counted and wake-ups sent: ``redis``, ``rabbitmq``, ``postgres``."""
    scheme = settings.CELERY_BROKER_URL.partition("://")[0]
    messages = "rabbitmq" if scheme.removesuffix("s") in ("amqp", "pyamqp") else "redis"
    rest = "redis" if settings.REDIS_URL else "postgres"
    return {"messages": messages, "rates": rest, "wake_ups": rest}


def differences() -> list[str]:
    """Of RabbitMQ as the broker, in words: what of the settings has no effect there, or another one."""
    if carriers()["messages"] != "rabbitmq":
        return []
    found = [
        "CARILLON_TENANT_QUEUE_BYTES: RabbitMQ does not tell the bytes of a queue; the queues that jobs write to are "
        "bounded by CARILLON_QUEUE_MAX_MESSAGES alone."
    ]
    if engine_settings().reserved_slots:
        found.append(
            "CARILLON_RESERVED_SLOTS: workers keep no slots for urgent work; a queue of RabbitMQ has no list for it. "
            "Give urgent types a worker of their own (-Q)."
        )
    return found


def tell_carriers() -> None:
    """At a process's start, where it is not all Redis."""
    if (used := carriers())["messages"] == "rabbitmq":
        log.info("broker is RabbitMQ", **used)
        for difference in differences():
            log.warning("setting without effect", reason=difference)

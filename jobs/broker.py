"""Redis as a broker, without its one weakness: a queue entry that is not a message would end the whole worker.

Only Carillon should write to Carillon's queues. An entry that is not JSON, or not an envelope of kombu's, is dropped
with a line in the log. ``jobs.tasks`` checks the contents of envelopes. All other errors come out as before. The
channel takes as many messages a round trip as its consumer has room for, puts any number in one, and knows how many
received a broadcast. The transport does not register a socket again in each turn of a loop (docs/adr/0019).
``BrokerMemory`` notices that Redis was emptied.
"""

import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from json import JSONDecodeError
from queue import Empty
from typing import Any, NamedTuple, cast
from uuid import uuid4

from django.conf import settings
from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import TRANSPORT_ALIASES, redis
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads
from redis.exceptions import RedisError, ResponseError

from jobs.conf import engine_settings
from jobs.telemetry import Outage, get_logger, shape_of

log = get_logger()
_outage = Outage("broker away")
_PATIENCE_SECONDS = 2
#: A socket that the loop should know already is registered again this often. It may have the number of an earlier
#: socket whose closing the loop was not told, and the system forgets a closed socket.
REPEAT_SECONDS = 1.0
#: How long Redis waits for an urgent message while a worker may take no other.
ASK_AGAIN_SECONDS = 0.01


#: The key that shows that Redis was not emptied. No queue's name may begin with a brace, even if granted.
MARK = "{carillon}:mark"
_LOOK_SECONDS = 0.25
_NO_JSON = (JSONDecodeError, UnicodeDecodeError, binascii.Error)
_IN_NO_TIME = {"socket_timeout": _LOOK_SECONDS, "socket_connect_timeout": _LOOK_SECONDS}


class Room(NamedTuple):
    """How many messages a consumer may be given: in all, and from the queues' second lists (not urgent)."""

    messages: int
    ordinary: int


def _one() -> Room:
    return Room(1, 1)


def _unnoted(seconds: float, *, asked: int, got: int) -> None:
    pass


#: Takes up to ARGV[1] messages from the lists KEYS in their order; behind the first ARGV[3] lists, ARGV[2] at most.
#: A key that is no list is passed over: an error would lose the messages that were taken before.
_TAKE = """
local taken, left = {}, tonumber(ARGV[1])
for place, key in ipairs(KEYS) do
    if place == ARGV[3] + 1 then left = math.min(left, ARGV[2]) end
    for _ = 1, left do
        local message = redis.pcall('RPOP', key)
        if type(message) ~= 'string' then break end
        taken[#taken + 1] = {key, message}
        left = left - 1
    end
end
return taken
"""


class Channel(redis.Channel):
    """kombu's channel, which takes several messages a round trip: a script takes more behind the one of BRPOP.

    ``room`` tells how many may come. ``note_answer`` hears how many came, of how many asked for, and after how long.
    While there is no room for ordinary messages, nothing is taken from the queues' second lists. ``heard``: how many
    received the last broadcast, by routing key.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heard: dict[str, int] = {}
        self.room: Callable[[], Room] = _one
        self.note_answer: Callable[..., None] = _unnoted
        #: How many messages the outstanding question is for, and since when it is outstanding.
        self._asked, self._asked_at = 0, 0.0

    def _brpop_start(self, timeout: float | None = None) -> None:
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        room, steps, seconds = self.room(), self.priority_steps, timeout or self.brpop_timeout
        if len(steps) > 1 and room.ordinary < 1:
            # A slot may be free again any moment, and a request to Redis cannot be taken back.
            steps, seconds = steps[:1], ASK_AGAIN_SECONDS
        keys = [self._q_for_pri(queue, step) for step in steps for queue in queues]
        question: list[tuple[Any, ...]] = [("BRPOP", *keys, seconds)]
        if room.messages > 1:
            # Counted as if the first were an ordinary one.
            more = (room.messages - 1, room.ordinary - 1, len(queues))
            question.append(("EVAL", _TAKE, len(keys), *keys, *more))
        connection = self._in_poll = self.client.connection
        self._asked, self._asked_at = max(1, room.messages), time.monotonic()
        self._brpop_sent_at = self._asked_at  # type: ignore[assignment]  # kombu looks for answers that are overdue
        connection.send_packed_command(connection.pack_commands(question))

    def _brpop_read(self, **options: Any) -> bool:
        try:
            taken, errors = self._answers(**options)
        finally:
            self._in_poll = False
            self._flush_brpop_reauth()
        if taken:
            self.note_answer(time.monotonic() - self._asked_at, asked=self._asked, got=len(taken))
        # Redis has forgotten them all. On its way out the stack hands on each, whatever happens to another.
        with ExitStack() as each:
            for key, message in reversed(taken):
                each.callback(self._hand_on, message, bytes_to_str(key).rsplit(self.sep, 1)[0])
        if errors:
            raise errors[0]
        if not taken:
            raise Empty
        return True

    def _answers(self, **options: Any) -> tuple[list[tuple[bytes, bytes]], list[Exception]]:
        """Each message that Redis answered with, behind its list; and errors. Both answers are read in any case, or the
        second would be taken for one to the next question."""
        connection = self.client.connection
        taken: list[tuple[bytes, bytes]] = []
        errors: list[Exception] = []
        for command in ("BRPOP", "EVAL")[: 2 if self._asked > 1 else 1]:
            try:
                answer = self.client.parse_response(connection, command, **options)
            except ResponseError as error:
                errors.append(error)
            except self.connection_errors as error:
                connection.disconnect()
                return taken, [error]
            else:
                taken += [answer] if command == "BRPOP" and answer else answer or []
        return taken, errors

    def _hand_on(self, message: bytes, queue: str) -> None:
        self._queue_cycle.rotate(queue)
        try:
            self.connection._deliver(loads(bytes_to_str(message)), queue)
        except _NO_JSON as error:
            log.warning("message dropped", error=f"no JSON: {error}")

    def push(self, lists: Mapping[tuple[str, int], Sequence[bytes]]) -> None:
        """Put envelopes into queues, by queue and priority, all in one round trip. kombu would spend a third of a
        dispatcher's turn on the same bytes."""
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipeline:
            for (queue, priority), envelopes in lists.items():
                pipeline.lpush(self._q_for_pri(queue, priority), *envelopes)
            pipeline.execute()

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **kwargs: Any) -> None:
        if kwargs.get("_publish_batch") is not None:  # Redis answers later, and not this call
            super()._put_fanout(exchange, message, routing_key, **kwargs)
            return
        text, topics = dumps(message), self._get_publish_topics(exchange, routing_key)
        with self.conn_or_acquire() as client:
            self.heard[routing_key] = sum([client.publish(topic, text) for topic in topics])


class Transport(redis.Transport):
    """kombu's transport, for queues that may hold anything."""

    Channel = Channel

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        super().register_with_event_loop(connection, _Told(loop))

    def on_readable(self, *ready: Any) -> None:
        # Of a queue's entries the channel says so itself; this is for broadcasts.
        try:
            super().on_readable(*ready)
        except _NO_JSON as error:
            log.warning("message dropped", error=f"no JSON: {error}")

    def _deliver(self, message: Any, queue: str) -> None:
        if _is_envelope(message):
            super()._deliver(message, queue)
        else:
            log.warning("message dropped", queue=queue, entry=shape_of(message), error="no envelope")


class _Told:
    """A worker's event loop that registers each socket once. kombu registers it in each turn, several times a message,
    and each time costs two system calls.
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
    """Tells whether Redis still has the published messages. Emptied, or back without its file, it has lost them all.

    A mark in Redis tells. Not thread-safe. A check waits at most ``_LOOK_SECONDS`` for each of three answers. A Redis
    that is away counts as one that forgot nothing, and so does a broker of another kind.
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
    """The settings that have no effect, or another one, with RabbitMQ as the broker, in words."""
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
    """Log the broker and its differences at a process's start, if it is RabbitMQ."""
    if (used := carriers())["messages"] == "rabbitmq":
        log.info("broker is RabbitMQ", **used)
        for difference in differences():
            log.warning("setting without effect", reason=difference)

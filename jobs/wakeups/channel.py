"""The rules that sender and listener share: where a wake-up is published, and how a burst of them becomes few.

A channel is Redis' (Pub/Sub), or Postgres' (``LISTEN``) where there is no Redis. ``NOTIFY`` is never part of a
transaction that writes: its commit holds one lock for the whole server until it is durable. By itself it has nothing
to flush, and the lock is gone at once (docs/adr/0030).
"""

from collections.abc import Iterator
from functools import cache
from threading import Event
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.db import Error, connection
from psycopg import sql
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs.own_session import own_session

#: A sender keeps silent for this long after a message, and a listener looks this long after one. So a look
#: finds all work committed while the sender kept silent, and no message is needed at the end of a burst.
COALESCE_SECONDS = 0.005
#: Raised by sending and hearing when the server is away.
FAILURES = (RedisError, psycopg.Error, Error, OSError)
#: Postgres drops a listener that reads nothing for so long: messages for it would fill the server's queue.
UNREAD_SECONDS = 60

#: The listeners: the beats, or requests that wait for pull work.
Kind = Literal["wake", "pull"]
_SCHEMES = ("redis", "rediss", "unix")


class Publisher(Protocol):
    """Publishes an empty message. Raises ``FAILURES``."""

    def publish(self, channel: str, message: bytes, /) -> object: ...


class RedisChannel(NamedTuple):
    """A Redis Pub/Sub channel and the URL of its server."""

    url: str
    name: str

    def connect(self, *, timeout_seconds: float) -> Redis:
        """A client that connects at first use, bounds every wait and never tries twice. Raises nothing yet."""
        options: dict[str, Any] = {
            "socket_timeout": timeout_seconds,
            "socket_connect_timeout": timeout_seconds,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
        }
        return Redis.from_url(self.url, **options)

    def hear(self, closed: Event, *, quiet_seconds: float) -> Iterator[bool]:
        """True once it listens, then False for each message, until ``closed``. Raises ``FAILURES``.

        A server silent for ``quiet_seconds`` is pinged; after as long again without an answer it counts as away.
        """
        with self.connect(timeout_seconds=quiet_seconds) as client, client.pubsub() as pubsub:
            pubsub.subscribe(self.name)
            asked = False
            while not closed.is_set():
                message = pubsub.get_message(timeout=quiet_seconds)
                if message is None and asked:
                    raise TimeoutError(f"no answer within {quiet_seconds:g} s")
                if message is None:
                    pubsub.ping()
                elif message["type"] != "pong":
                    yield message["type"] == "subscribe"
                asked = message is None


class PostgresChannel(NamedTuple):
    """A channel of Carillon's database."""

    name: str

    def connect(self, *, timeout_seconds: float) -> Publisher:
        """Publishes on the calling thread's own connection, which has just committed: ``timeout_seconds`` is not kept,
        and no connection more is needed.
        """
        return _Notifier()

    def hear(self, closed: Event, *, quiet_seconds: float) -> Iterator[bool]:
        """As ``RedisChannel.hear``, on its own session. The connection notices a server that does not answer."""
        with own_session(timeout_seconds=quiet_seconds) as session:
            session.execute("SELECT set_config('tcp_user_timeout', %s, false)", [str(UNREAD_SECONDS * 1000)])
            session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.name)))
            yield True
            while not closed.is_set():
                if any(True for _ in session.notifies(timeout=quiet_seconds, stop_after=1)):
                    yield False
                else:
                    session.execute("SELECT 1")


class _Notifier:
    def publish(self, channel: str, _: bytes, /) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [channel])


Channel = RedisChannel | PostgresChannel


def our_channel(kind: Kind = "wake") -> Channel | None:
    """The channel of this deployment for ``kind``; None when ``REDIS_URL`` names something else than a Redis, such as a
    sentinel.

    Processes of one deployment agree on the database's name and, as they share a broker, on Redis' database. Channels
    span Redis' databases, so the name also has the number of Redis' database: two deployments on one server do not
    meet. A pooler may have another name for the database than Postgres (``CALLED``). Postgres' channels are each
    database's own.
    """
    url: str = settings.REDIS_URL
    if not url:
        return PostgresChannel(f"carillon_{kind}")
    if urlsplit(url).scheme not in _SCHEMES:
        return None
    known = connection.settings_dict
    return RedisChannel(url, f"carillon:{kind}:{_redis_database(url)}:{known.get('CALLED') or known['NAME']}")


@cache
def _redis_database(url: str) -> int:
    return int(Redis.from_url(url).connection_pool.connection_kwargs.get("db", 0))

"""What sender and listener must agree on: where a wake-up is published, and how a burst of them becomes few."""

from functools import cache
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: A sender keeps silent for this long after a message, and a listener looks this long after one. So a look
#: finds all work committed while the sender kept silent, and no message is needed at the end of a burst.
COALESCE_SECONDS = 0.005

#: The listeners: the beats, or requests that wait for pull work.
Kind = Literal["wake", "pull"]
_SCHEMES = ("redis", "rediss", "unix")


class Channel(NamedTuple):
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


def our_channel(kind: Kind = "wake") -> Channel | None:
    """The channel of this deployment for ``kind``; None when ``REDIS_URL`` names something else than a Redis, such as a
    sentinel.

    Processes of one deployment agree on the database's name and, as they share a broker, on Redis' database. Channels
    span Redis' databases, so its number is in the name too: two deployments on one server do not meet.
    """
    url: str = settings.REDIS_URL
    if urlsplit(url).scheme not in _SCHEMES:
        return None
    return Channel(url, f"carillon:{kind}:{_redis_database(url)}:{connection.settings_dict['NAME']}")


@cache
def _redis_database(url: str) -> int:
    return int(Redis.from_url(url).connection_pool.connection_kwargs.get("db", 0))

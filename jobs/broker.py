"""Redis as a broker, without its one weakness: an entry of a queue that is no message would end the whole worker.

Nobody but us writes to our queues, or so one hopes. What is no JSON, or no envelope of kombu's, is dropped with a word
in the log; what an envelope may hold is checked in ``jobs.tasks``. Errors of anything else come out as before.
"""

import binascii
from json import JSONDecodeError
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

from jobs.telemetry import get_logger

log = get_logger()


class Transport(redis.Transport):
    """kombu's, for queues that hold anything at all."""

    def on_readable(self, *ready: Any) -> None:
        try:
            super().on_readable(*ready)
        except (JSONDecodeError, UnicodeDecodeError, binascii.Error) as error:
            log.warning("message dropped", error=f"no JSON: {error}")

    def _deliver(self, message: Any, queue: str) -> None:
        if _is_envelope(message):
            super()._deliver(message, queue)
        else:
            log.warning("message dropped", queue=queue, entry=repr(message)[:200], error="no envelope")


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

"""Wait for RabbitMQ's confirms once per batch: a wait after each message would wait for its disk each time."""

import time
from typing import Any

from kombu.exceptions import KombuError


class NotConfirmed(KombuError):
    """RabbitMQ refused a message, or did not answer in time. Some of the batch may be in their queues."""


class Confirms:
    """The confirms of one py-amqp channel, to which nothing else publishes. Not thread-safe."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_select()
        channel.events["basic_ack"].add(self._take)
        channel.events["basic_nack"].add(self._refuse)
        self._sent = 0
        self._missing: set[int] = set()
        self._refused = 0

    def expect(self) -> None:
        """Expect a confirm for one more published message."""
        self._sent += 1
        self._missing.add(self._sent)

    def wait(self, *, seconds: float) -> None:
        """Return when RabbitMQ has all messages. Raises ``NotConfirmed``, or the connection's errors."""
        deadline = time.monotonic() + seconds
        while self._missing:
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                self._channel.connection.drain_events(timeout=left)
            except TimeoutError:
                raise NotConfirmed(
                    f"{len(self._missing)} messages not confirmed within {seconds:g} s"
                ) from None
        if self._refused:
            raise NotConfirmed(f"{self._refused} messages refused")

    def _take(self, tag: int, multiple: bool) -> None:
        self._missing -= {one for one in self._missing if one <= tag} if multiple else {tag}

    def _refuse(self, tag: int, multiple: bool) -> None:
        before = len(self._missing)
        self._take(tag, multiple)
        self._refused += before - len(self._missing)

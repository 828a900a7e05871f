"""RabbitMQ's confirms, waited for once a batch: after each message its disk would be waited for, each time."""

import time
from typing import Any

from kombu.exceptions import KombuError


class NotConfirmed(KombuError):
    """RabbitMQ said that it did not take a message, or nothing in time; some of the batch may be in their queues."""


class Confirms:
    """Of one channel (py-amqp's), on which only we publish. Not thread-safe."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_select()
        channel.events["basic_ack"].add(self._take)
        channel.events["basic_nack"].add(self._refuse)
        self._sent = 0
        self._missing: set[int] = set()
        self._refused = 0

    def expect(self) -> None:
        """One more message was published."""
        self._sent += 1
        self._missing.add(self._sent)

    def wait(self, *, seconds: float) -> None:
        """Return when RabbitMQ has all of them. Raises ``NotConfirmed``, or as the connection does."""
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

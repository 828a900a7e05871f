"""Celery's consumer, but for one thing: it publishes task events a few times a second, not after every message.

Each publish costs a worker as much as the rest it does for a message (docs/adr/0019), and nobody watches that closely.
Named by ``CELERY_WORKER_CONSUMER``.
"""

import time

from celery.worker.consumer import Consumer as CelerysConsumer

FLUSH_SECONDS = 0.25
#: Events in one message at most: some 100 kB.
MOST_EVENTS = 240


class Consumer(CelerysConsumer):
    """Buffers task events for ``FLUSH_SECONDS``, or until there are ``MOST_EVENTS``."""

    _flush_at = 0.0

    def on_send_event_buffered(self) -> None:
        # By the clock, not by a flag: a lost connection may take the timer's entry with it.
        now = time.monotonic()
        if self.hub and now >= self._flush_at:
            self._flush_at = now + FLUSH_SECONDS
            self.event_dispatcher.buffer_limit = MOST_EVENTS
            self.hub.call_later(FLUSH_SECONDS, self._flush_events)

    def shutdown(self) -> None:
        self._flush_events()
        super().shutdown()

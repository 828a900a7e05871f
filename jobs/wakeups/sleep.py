"""The beat's sleep between two turns: until an instant, a wake-up or a signal, whichever is first."""

import select
import time
from typing import Protocol

from jobs.wakeups.channel import COALESCE_SECONDS
from jobs.wakeups.listener import Listener

#: A beat that slept for so long had nothing to do.
SILENCE_SECONDS = 0.001


class Readable(Protocol):
    def fileno(self) -> int: ...


class Sleep:
    """Call it after each turn with the seconds to sleep; it returns when the next turn should begin.

    ``signals`` becomes readable when the process gets a signal; its bytes are left to the caller. However many wake-ups
    arrive, they cause at most one turn in ``COALESCE_SECONDS``. After each wake-up, a turn begins that long after it at
    the earliest, as its sender counts on. A wake-up after a silence also causes a turn at once: a step of a workflow
    does not wait. In a stream of wake-ups that would only make turns smaller.
    """

    def __init__(self, *, signals: int, listener: Listener) -> None:
        self._signals = signals
        self._listener = listener
        self._turn_began_at = self._look_at = 0.0

    def __call__(self, seconds: float, *, listening: bool) -> bool:
        """Sleep at most ``seconds``; wake-ups end it when ``listening``. Returns whether a signal did."""
        asleep_since = time.monotonic()
        until = asleep_since + seconds
        if self._turn_began_at < self._look_at:
            until = min(until, self._look_at)
        ended_by = (
            self._wait(until, self._signals, self._listener)
            if listening
            else self._wait(until, self._signals)
        )
        if self._listener in ended_by and self._listener.heard():
            now = time.monotonic()
            # A wake-up that came during the turn belongs to a stream.
            is_first = now >= max(
                self._look_at, self._turn_began_at + COALESCE_SECONDS, asleep_since + SILENCE_SECONDS
            )
            self._look_at = now + COALESCE_SECONDS
            if not is_first and self._signals not in ended_by:
                ended_by = self._wait(min(until, self._look_at), self._signals)
        self._turn_began_at = time.monotonic()
        return self._signals in ended_by

    @staticmethod
    def _wait(until: float, *ends: int | Readable) -> list[int | Readable]:
        return select.select(ends, [], [], max(0.0, until - time.monotonic()))[0]

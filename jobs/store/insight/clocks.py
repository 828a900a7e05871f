"""Clocks: how far a process's clock is from the database's, measured, kept for people to see, and logged when far.

Nothing is decided by it: the database decides which work is due, leased or late. But handlers, logs and certificates go
by the process's clock, and their readers want to know.

Half of the round trip is taken out of a measurement, so it is right to within the other half. Only the offset beyond
that doubt counts as far off.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

from jobs.store import db
from jobs.telemetry import get_logger
from jobs.telemetry.release import release

log = get_logger()
_SQL = db.queries("clocks")
#: A little less than the workers' heartbeat, so that each beat of it measures.
MEASURED_EVERY = timedelta(seconds=9)
#: A process counts as gone when it has not measured for this long.
GONE_AFTER = timedelta(seconds=60)
#: A clock that is further off than this is warned about, once, until it is well within it again.
TOLERATED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The process's clock is ``offset_seconds`` ahead of the database's (negative: behind), give or take ``within``."""

    offset_seconds: float
    within_seconds: float

    @property
    def surely_off_seconds(self) -> float:
        """How far off the clock is at least."""
        return max(0.0, abs(self.offset_seconds) - self.within_seconds)


class Asking(AbstractContextManager["Asking"]):
    """``with Asking() as asking: at = …`` around a question to the database; then ``asking.reading(at)``."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def __enter__(self) -> "Asking":
        self._asked_at, self._since = self._clock(), time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._half = (time.monotonic() - self._since) / 2

    def reading(self, at: datetime) -> Reading:
        """The reading, given that the database answered ``at``."""
        return Reading(self._asked_at + self._half - at.timestamp(), self._half)


class Drift:
    """One process's clock. ``measure_if_due`` goes wherever the process talks to the database anyway."""

    def __init__(
        self,
        *,
        name: str,
        clock: Callable[[], float] = time.time,
        rate_limit_bypassed: Callable[[], int] = lambda: 0,
    ) -> None:
        """``rate_limit_bypassed`` tells how many firings passed while no rate limit could be asked."""
        self._name = name
        self._clock = clock
        self._rate_limit_bypassed = rate_limit_bypassed
        self._far = False
        self._due_at = 0.0
        self.reading: Reading | None = None

    def measure_if_due(self) -> None:
        """Measure, at most every nine seconds. One statement, which also keeps the measurement before."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + MEASURED_EVERY.total_seconds()
        last = self.reading
        with Asking(self._clock) as asking:
            [row] = _SQL["compare"](
                name=self._name,
                offset=last.offset_seconds if last else None,
                within=last.within_seconds if last else None,
                rate_limit_bypassed=self._rate_limit_bypassed(),
                version=release(),
            )
        if last is None:
            self._due_at = 0.0  # nothing is on record yet: the next turn puts it there
        self.note(asking.reading(row.at))

    def note(self, reading: Reading) -> None:
        """Take a measurement, and write to the log when the clock has gone too far off, or come back."""
        self.reading = reading
        off = reading.surely_off_seconds
        if not self._far and off > TOLERATED_SECONDS:
            self._far = True
            log.warning("clock drift", **self._figures(reading), tolerated_seconds=TOLERATED_SECONDS)
        elif self._far and off < TOLERATED_SECONDS / 2:
            self._far = False
            log.info("clock drift is over", **self._figures(reading))

    def _figures(self, reading: Reading) -> dict[str, object]:
        return {
            "process": self._name,
            "offset_seconds": round(reading.offset_seconds, 3),
            "within_seconds": round(reading.within_seconds, 3),
        }


def present(*, limit: int = 1000) -> list[Any]:
    """The processes whose clocks are known, furthest off first: ``name``, ``offset_seconds``, ``within_seconds``,
    ``rate_limit_bypassed``, ``version``, ``measured_at``.
    """
    return _SQL["present"](silence=GONE_AFTER, limit=limit)

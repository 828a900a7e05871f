"""A gate between a trigger and running, and the words in which gates speak."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.core.instants import instant_text, span

__all__ = ("Gate", "counted", "moment", "span")


@dataclass(frozen=True, slots=True)
class Gate:
    """``detail`` is a sentence with the figures; ``opens_at`` is when the gate opens, where that is known.

    Gates that count have ``used`` and ``limit``. ``blockers`` are the triggers that stand in the way, the first few.
    """

    name: str
    passed: bool
    detail: str
    opens_at: datetime | None = None
    limit: float | None = None
    used: float | None = None
    blockers: tuple[UUID, ...] = ()


def moment(instant: datetime) -> str:
    """``2030-01-31T02:00:00Z``; parts of a second only where there are some, to the millisecond."""
    return instant_text(instant, timespec="milliseconds" if instant.microsecond >= 1000 else "seconds")


def counted(number: int, noun: str, *, most: int | None = None) -> str:
    """``1 trigger``, ``2,000 triggers``, ``1,000 triggers or more`` when the count ended at ``most``."""
    text = f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
    return f"{text} or more" if number == most else text

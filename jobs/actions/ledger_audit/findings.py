"""The findings of an audit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from jobs.models import Job


class Difference(NamedTuple):
    """``kind``: ``missing`` (an instant without a record), ``unexpected`` (a record without an instant), ``twice``
    (an instant in two records), ``miscounted`` (a range whose count is not the schedule's), ``no_timeline``.
    """

    kind: str
    at: datetime
    detail: str


@dataclass(slots=True)
class JobAudit:
    """One job's result. ``differences`` are the first ``keep``; ``counts`` has all of them by kind.

    ``unproven`` are stretches of time, ``after < t <= until``, whose schedule can no longer be computed, with why:
    the instants to expect there are unknown.
    """

    job: Job
    keep: int
    instants: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    unproven: list[tuple[datetime, datetime, str]] = field(default_factory=list)

    def add(self, kind: str, at: datetime, detail: str) -> None:
        self.add_all(kind, 1, lambda _: at, detail)

    def add_all(self, kind: str, number: int, nth: Callable[[int], datetime], detail: str) -> None:
        """Add a run of differences of one kind, in the order of time; ``nth`` gives the times of the kept ones."""
        self.counts[kind] += number
        room = self.keep - len(self.differences)
        self.differences += [Difference(kind, nth(index), detail) for index in range(min(number, room))]

    def is_unproven(self, at: datetime) -> bool:
        return any(after < at <= until for after, until, _ in self.unproven)

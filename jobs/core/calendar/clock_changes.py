"""When the clocks of a zone change, found by asking the zone; ``zoneinfo`` does not list its changes."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobs.core.timezones import load_zone

_DAY = timedelta(days=1)


class ClockChange(NamedTuple):
    """At the instant ``at`` the offset from UTC turns from ``before`` into ``later``."""

    at: datetime
    before: timedelta
    later: timedelta

    @property
    def is_gap(self) -> bool:
        """Whether wall-clock times are missing; else some come twice."""
        return self.later > self.before

    @property
    def walls(self) -> tuple[datetime, datetime]:
        """The wall-clock times that are missing or come twice: from the first until before the second."""
        utc = self.at.replace(tzinfo=None)
        low, high = sorted((self.before, self.later))
        return utc + low, utc + high


def clock_changes(timezone: str, *, after: datetime, until: datetime) -> list[ClockChange]:
    """The changes of zone ``timezone`` with ``after < at <= until`` (both UTC), ascending. Cached by year.

    Raises ``ScheduleError`` for a zone that is not in the database.
    """
    years = range(after.year, until.year + 1)
    return [change for year in years for change in _changes_of(timezone, year) if after < change.at <= until]


@lru_cache(maxsize=4096)
def _changes_of(timezone: str, year: int) -> tuple[ClockChange, ...]:
    """The changes of one year. No zone has changed its clocks twice within a day since 2000."""
    zone = load_zone(timezone)
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    days = [start + number * _DAY for number in range((end - start).days + 1)]
    return tuple(
        ClockChange(change_between(morning, night, zone), offset_at(morning, zone), offset_at(night, zone))
        for morning, night in pairwise(days)
        if offset_at(morning, zone) != offset_at(night, zone)
    )


def offset_at(instant: datetime, zone: ZoneInfo) -> timedelta:
    """The offset from UTC in force at ``instant``."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def change_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The instant, to the second, at which ``before``'s offset gives way to ``after``'s, by bisection."""
    old = offset_at(before, zone)
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(before + timedelta(seconds=middle), zone) == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)

"""Days of the month that move with its length and its weekdays: Quartz's ``15W``, ``LW``, ``L-3`` and ``L-3W``.

croniter does not know them, so their calendar is walked here. They are spelt in lower case, as ``terms`` expands them.
A month without such a day (``31W`` in April, ``L-30`` in February) is passed over, as Spring does. Quartz rolls over
into the next month or fails.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import lru_cache

_TERM = re.compile(r"(?P<day>[0-9]*)(?P<last>l?)(?:-(?P<before>[0-9]+))?(?P<nearest>w?)")
_LAST_YEAR = 2100
_SATURDAY, _SUNDAY = 5, 6


def moves(days: str) -> bool:
    """Whether an expanded day-of-month has such a day."""
    return "w" in days or "-" in days


def values(listed: str, count: int, first: int = 0) -> tuple[int, ...]:
    """The numbers of an expanded field of plain numbers, ascending: ``*`` is all ``count`` from ``first`` on."""
    return tuple(range(first, first + count)) if listed == "*" else tuple(sorted(map(int, listed.split(","))))


@lru_cache(maxsize=1024)
def days_of_year(days: str, months: str, year: int) -> tuple[int, ...]:
    """The days of ``year`` that match, ascending, as proleptic ordinals."""
    return tuple(
        date(year, month, day).toordinal()
        for month in values(months, 12, 1)
        for day in sorted(set(_days_of_month(days, year, month)))
    )


def walls(lists: Sequence[str], after: datetime) -> Iterator[datetime]:
    """The wall-clock times later than ``after``, ascending, of expanded fields whose day-of-month moves."""
    second, minute, hour, days, months, _ = lists
    seconds, minutes, hours = values(second, 60), values(minute, 60), values(hour, 24)
    for year in range(after.year, _LAST_YEAR + 1):
        for ordinal in days_of_year(days, months, year):
            if ordinal < after.toordinal():
                continue
            midnight = datetime.fromordinal(ordinal)
            for an_hour in (midnight.replace(hour=number) for number in hours):
                if an_hour < after.replace(minute=0, second=0, microsecond=0):
                    continue
                for a_minute in (an_hour.replace(minute=number) for number in minutes):
                    if a_minute < after.replace(second=0, microsecond=0):
                        continue
                    times = (a_minute.replace(second=number) for number in seconds)
                    yield from (wall for wall in times if wall > after)


def _days_of_month(days: str, year: int, month: int) -> Iterator[int]:
    last = monthrange(year, month)[1]
    for term in days.split(","):
        match = _TERM.fullmatch(term)
        assert match is not None, term
        day = last - int(match["before"] or 0) if match["last"] else int(match["day"])
        if 1 <= day <= last:
            yield _nearest_weekday(year, month, day, last) if match["nearest"] else day


def _nearest_weekday(year: int, month: int, day: int, last: int) -> int:
    """The day from Monday to Friday nearest to ``day``, in its month."""
    weekday = date(year, month, day).weekday()
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < last else day - 2
    return day

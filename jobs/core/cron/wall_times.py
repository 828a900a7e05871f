"""The wall-clock times of an expression, counted and picked without walking them.

Every day an expression matches has the same times, so its years are a list of days and three short lists: of hours, of
minutes and of seconds.
"""

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from functools import lru_cache, partial

from croniter import CroniterBadDateError, croniter

from jobs.core.cron.expression import CronExpression
from jobs.core.cron.moving import days_of_year, moves, values

_SECOND = timedelta(seconds=1)


class WallTimes:
    """The naive wall-clock times of ``expression`` from the start of ``first_year`` to the end of ``last_year``."""

    def __init__(self, expression: CronExpression, *, first_year: int, last_year: int) -> None:
        second, minute, hour, *dates = expression.lists
        self._seconds, self._minutes = values(second, 60), values(minute, 60)
        self._hours = values(hour, 24)
        years = range(first_year, last_year + 1)
        days, months, _ = dates
        of_year = partial(days_of_year, days, months) if moves(days) else partial(_days, " ".join(dates))
        self._days = tuple(day for year in years for day in of_year(year))
        self._an_hour = len(self._minutes) * len(self._seconds)
        self._a_day = len(self._hours) * self._an_hour

    def rank(self, wall: datetime) -> int:
        """How many of the times are not later than ``wall``, whose offset from UTC, if any, is ignored."""
        # Digit by digit: times of earlier days, then times of earlier hours of this day, and so on.
        days = bisect_left(self._days, day := wall.toordinal())
        rank = days * self._a_day
        if days == len(self._days) or self._days[days] != day:
            return rank
        hours = bisect_left(self._hours, wall.hour)
        rank += hours * self._an_hour
        if hours == len(self._hours) or self._hours[hours] != wall.hour:
            return rank
        minutes = bisect_left(self._minutes, wall.minute)
        rank += minutes * len(self._seconds)
        if minutes == len(self._minutes) or self._minutes[minutes] != wall.minute:
            return rank
        return rank + bisect_right(self._seconds, wall.second)

    def nth(self, index: int) -> datetime:
        """The time that has ``index`` times before it."""
        days, index = divmod(index, self._a_day)
        hours, index = divmod(index, self._an_hour)
        minutes, seconds = divmod(index, len(self._seconds))
        return datetime.fromordinal(self._days[days]).replace(
            hour=self._hours[hours], minute=self._minutes[minutes], second=self._seconds[seconds]
        )


@lru_cache(maxsize=1024)
def _days(dates: str, year: int) -> tuple[int, ...]:
    """The days of ``year`` that day-of-month, month and day-of-week match, as proleptic ordinals."""
    calendar = croniter(f"0 0 {dates}", datetime(year, 1, 1) - _SECOND)  # noqa: DTZ001 - wall-clock time has no zone
    days = []
    try:
        while (midnight := calendar.get_next(datetime)).year == year:
            days.append(midnight.toordinal())
    except CroniterBadDateError:
        return tuple(days)
    return tuple(days)

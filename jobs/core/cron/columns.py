"""The columns of a cron expression in each dialect: their order, bounds and names (DESIGN §9).

``unix`` has five, with Sunday as 0 or 7; ``quartz`` has seconds before them and counts Sunday as 1.
"""

from dataclasses import dataclass

from jobs.core.policies import CronDialect


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its English name, its bounds and the names that stand for numbers, in order from ``low``.

    ``high`` is the highest number that may be written; ``last`` the highest distinct one (unix' weekday 7 is Sunday
    again).
    """

    name: str
    low: int
    high: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def is_day(self) -> bool:
        return self.name == "day-of-month"

    @property
    def is_weekday(self) -> bool:
        return self.name == "day-of-week"

    @property
    def everything(self) -> frozenset[int]:
        """Every value the column can take, as ``value`` gives them."""
        return frozenset(self.value(number) for number in range(self.low, self.last + 1))

    def value(self, number: int) -> int:
        """The value of a written ``number``: weekdays count from Sunday as 0 in every dialect."""
        return (number - self.low) % 7 if self.is_weekday else number


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DATE = (
    Column("minute", 0, 59, 59),
    Column("hour", 0, 23, 23),
    Column("day-of-month", 1, 31, 31),
    Column("month", 1, 12, 12, _MONTH_NAMES),
)

COLUMNS: dict[CronDialect, tuple[Column, ...]] = {
    CronDialect.UNIX: (*_DATE, Column("day-of-week", 0, 7, 6, _WEEKDAY_NAMES)),
    CronDialect.QUARTZ: (
        Column("second", 0, 59, 59),
        *_DATE,
        Column("day-of-week", 1, 7, 7, _WEEKDAY_NAMES),
    ),
}

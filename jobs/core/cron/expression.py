"""A whole cron expression: reading it, and walking the wall-clock times it names.

Accepted: numbers, names of months and weekdays, lists, ranges, steps, ``L`` and ``#``, in the unix dialect five macros,
in the quartz dialect also ``W`` and ``L-3`` (DESIGN §9). A spelling that two common parsers read differently is
refused, and the refusal gives the unambiguous spelling. So a crontab that moves to Carillon either means the same or is
stopped here.

Expressions are expanded here and croniter gets plain lists, so its own readings of unusual spellings have no effect. It
does the calendar (days of months, weekdays, leap years) on naive wall-clock time and knows no time zones. Every refusal
raises ``InvalidInput`` under the field ``cron``.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NoReturn

from croniter import CroniterBadDateError, croniter

from jobs.core.cron import moving
from jobs.core.cron.columns import COLUMNS
from jobs.core.cron.terms import Field
from jobs.core.errors import InvalidInput
from jobs.core.policies import CronDialect

MAX_CRON_LENGTH = 100
_BEFORE_ALL = datetime(1999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - wall-clock time has no zone
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression.

    ``text``: the normalised spelling. ``wildcard``: whether its minute or hour field begins with ``*``. This decides
    how it behaves where clocks change (DESIGN §9). ``lists``: the values of second, minute, hour, day-of-month, month
    and day-of-week, as croniter spells them: ``*`` or a list of ``3``, ``l``, ``l5``, ``5#2`` with Sunday 0. They may
    also hold days that move, which croniter does not know: ``15w``, ``lw``, ``l-3``.
    """

    text: str
    wildcard: bool
    lists: tuple[str, ...]
    _calendar: croniter | None = field(repr=False, compare=False)

    def walls(self, *, after: datetime) -> Iterator[datetime]:
        """Naive wall-clock times that match, ascending, each later than the naive ``after``."""
        if self._calendar is None:
            yield from moving.walls(self.lists, after)
            return
        # A copy, because a croniter object keeps its cursor in itself and this one is shared by every caller.
        calendar = copy.copy(self._calendar)
        calendar.set_current(after)
        while True:
            try:
                yield calendar.get_next(datetime)
            except CroniterBadDateError:
                return


@lru_cache(maxsize=8192)
def parse_cron(text: str, dialect: str = CronDialect.UNIX) -> CronExpression:
    """Parse ``text`` as an expression of ``dialect``; cached.

    Raises ``InvalidInput`` under ``cron``. It says where the fault is, the reason, and what would be right.
    """
    dialect = CronDialect(dialect)
    normal = _normalise(text, dialect)
    fields = _fields(MACROS.get(normal, text.upper()), dialect)
    lists = tuple(each.expand() for each in fields)
    day, weekday = fields[-3], fields[-1]
    (_check_days if dialect is CronDialect.UNIX else _check_quartz_days)(day, lists[-3], weekday, lists[-1])
    seconds, *rest = lists if dialect is CronDialect.QUARTZ else ("0", *lists)
    # croniter has seconds last, and is faster without.
    spelt = " ".join(rest if seconds == "0" else [*rest, seconds])
    calendar = None if moving.moves(lists[-3]) else croniter(spelt, _BEFORE_ALL)
    minute, hour = fields[-5], fields[-4]
    wildcard = minute.text.startswith("*") or hour.text.startswith("*")
    expression = CronExpression(text=normal, wildcard=wildcard, lists=(seconds, *rest), _calendar=calendar)
    if next(expression.walls(after=_BEFORE_ALL), None) is None:
        day.refuse("never fires: none of the months has such a day; correct the day-of-month or the month")
    return expression


def _refuse(message: str) -> NoReturn:
    raise InvalidInput({"cron": message})


def _normalise(text: str, dialect: CronDialect) -> str:
    """``text`` with single spaces and capital names (macros in lower case), if it is printable ASCII."""
    if not text.isascii() or not text.replace("\t", " ").strip().isprintable():
        _refuse("Only printable ASCII characters are allowed, and no line breaks inside.")
    if len(text) > MAX_CRON_LENGTH:
        _refuse(f"This is {len(text)} characters long; at most {MAX_CRON_LENGTH} are allowed.")
    normal = " ".join(text.split()).upper()
    if not normal.startswith("@"):
        return normal
    if dialect is CronDialect.QUARTZ:
        _refuse("Macros belong to the unix dialect; write six fields, or leave out cron_dialect.")
    if normal.lower() not in MACROS:
        _refuse(f"{normal.lower()} is not a macro here; use one of {', '.join(MACROS)} or five fields.")
    return normal.lower()


def _fields(text: str, dialect: CronDialect) -> list[Field]:
    columns = COLUMNS[dialect]
    words = list(re.finditer(r"\S+", text))
    if len(words) != len(columns):
        _refuse(_wrong_count(len(words), dialect))
    return [
        Field(column, dialect, word[0], number, word.start() + 1)
        for number, (column, word) in enumerate(zip(columns, words, strict=True), start=1)
    ]


def _wrong_count(count: int, dialect: CronDialect) -> str:
    columns = " ".join(column.name for column in COLUMNS[dialect])
    if dialect is CronDialect.QUARTZ:
        needed = f"the quartz dialect needs six: {columns}, such as 0 0 2 * * ?"
        if count == 5:
            return f"This has 5 fields; {needed}. For five fields leave out cron_dialect."
        if count == 7:
            return f"This has 7 fields; {needed}. Leave out the year and set ends_at instead."
    else:
        needed = f"five fields are needed: {columns}"
        if count == 6:
            return (
                f"This has 6 fields; {needed}. Parsers disagree on whether seconds come first or last: leave them "
                'out, or put them first and set cron_dialect to "quartz".'
            )
        if count == 7:
            return f"This has 7 fields; {needed}. Leave out seconds and years: parsers disagree on them."
        needed += ", such as 0 2 * * *"
    return f"This has {count if count > 1 else 'too few'} fields; {needed}."


def _check_days(day: Field, days: str, weekday: Field, weekdays: str) -> None:
    """Refuse the pairs of day-of-month and day-of-week that crons join differently."""
    if "*" in (day.text, weekday.text) or (days == "*" and weekdays == "*"):
        return
    for each, expanded in ((day, days), (weekday, weekdays)):
        if each.text.startswith("*") or expanded == "*":
            each.refuse(
                "together with a day of the other kind is joined with OR by some parsers and with AND by others; "
                "write * in one of the two, or list the days as numbers"
            )
    if re.search("[L#]", weekday.text):
        weekday.refuse(
            "together with a day-of-month is joined with OR by some parsers and with AND by others; "
            "make a job for each"
        )


def _check_quartz_days(day: Field, days: str, weekday: Field, weekdays: str) -> None:
    """Quartz takes one kind of day at a time; others that read its dialect join the two with AND."""
    if day.text == weekday.text == "?":
        weekday.refuse("leaves open both kinds of day; write * in day-of-month")
    if "*" not in (days, weekdays):
        weekday.refuse(
            "together with a day-of-month is refused by Quartz and joined with AND by others; "
            "write ? in one of the two, or make a job for each"
        )

"""Cron expressions of five fields: what is accepted, what is refused and why, and the wall-clock times they
name.

Accepted: numbers, names of months and weekdays, lists, ranges, steps over ``*`` or a range, ``L`` in
day-of-month, ``L5`` and ``5#2`` in day-of-week, and five macros (DESIGN §9). Whatever two common parsers read
differently is refused with the unambiguous spelling, so a crontab that moves to Carillon either means the
same or is stopped here.

Expressions are expanded here and croniter is handed plain lists, so its own readings of unusual spellings
never act. It does the calendar (days of months, weekdays, leap years) on naive wall-clock time and knows no
time zones; those are ``jobs.core.schedule``'s. Everything refused raises ``InvalidInput`` under the field
``cron``.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NoReturn

from croniter import CroniterBadDateError, croniter

from jobs.core.errors import InvalidInput

LONGEST_CRON = 100
_BEFORE_ALL = datetime(1999, 12, 31, 23, 59)  # noqa: DTZ001 - wall-clock time has no zone
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class _Field:
    """One column: its English name, its bounds and the names that stand for numbers, in order from ``low``.

    ``high`` is the highest number written; ``last`` the highest distinct value (weekday 7 is Sunday again).
    """

    name: str
    low: int
    high: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def everything(self) -> frozenset[int]:
        return frozenset(range(self.low, self.last + 1))


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MINUTE = _Field("minute", 0, 59, 59)
_HOUR = _Field("hour", 0, 23, 23)
_DAY = _Field("day-of-month", 1, 31, 31)
_MONTH = _Field("month", 1, 12, 12, _MONTH_NAMES)
_WEEKDAY = _Field("day-of-week", 0, 7, 6, _WEEKDAY_NAMES)
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

_TERM = re.compile(r"(?:(?P<star>\*)|(?P<low>[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?)(?:/(?P<step>[0-9]{1,3}))?")
_NTH = re.compile(r"(?P<day>[0-9A-Z]+)#(?P<nth>[0-9]+)")
_FOREIGN = re.compile(r"[RH](\([0-9-]*\))?(/[0-9]+)?")


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression.

    ``text`` is the normalised spelling; ``wildcard`` whether its minute or hour field begins with ``*``,
    which decides how it behaves where clocks change (DESIGN §9).
    """

    text: str
    wildcard: bool
    _calendar: croniter = field(repr=False, compare=False)

    def walls(self, *, after: datetime) -> Iterator[datetime]:
        """Naive wall-clock times that match, ascending, each later than the naive ``after``."""
        # A copy, because a croniter object keeps its cursor in itself and this one is shared by every caller.
        calendar = copy.copy(self._calendar)
        calendar.set_current(after)
        while True:
            try:
                yield calendar.get_next(datetime)
            except CroniterBadDateError:
                return


@lru_cache(maxsize=8192)
def parse_cron(text: str) -> CronExpression:
    """Parse ``text``; cached. Raises ``InvalidInput`` under ``cron``: the reason and what would be right."""
    normal = _normalise(text)
    fields = MACROS.get(normal, normal).split(" ")
    if len(fields) != len(_FIELDS):
        _refuse(_wrong_count(len(fields)))
    expanded = [_expand(column, spelling) for column, spelling in zip(_FIELDS, fields, strict=True)]
    _check_days(fields[2], expanded[2], fields[4], expanded[4])
    calendar = croniter(" ".join(expanded), _BEFORE_ALL)
    expression = CronExpression(
        text=normal, wildcard=fields[0][0] == "*" or fields[1][0] == "*", _calendar=calendar
    )
    if next(expression.walls(after=_BEFORE_ALL), None) is None:
        _refuse("This never fires: none of its months has such a day. Correct the day-of-month or the month.")
    return expression


def _refuse(message: str) -> NoReturn:
    raise InvalidInput({"cron": message})


def _normalise(text: str) -> str:
    """``text`` with single spaces and capital names (macros in lower case), if it is printable ASCII."""
    if not text.isascii() or not text.replace("\t", " ").strip().isprintable():
        _refuse("Only printable ASCII characters are allowed, and no line breaks inside.")
    if len(text) > LONGEST_CRON:
        _refuse(f"This is {len(text)} characters long; at most {LONGEST_CRON} are allowed.")
    normal = " ".join(text.split()).upper()
    if not normal.startswith("@"):
        return normal
    if normal.lower() not in MACROS:
        _refuse(f"{normal.lower()} is not a macro here; use one of {', '.join(MACROS)} or five fields.")
    return normal.lower()


def _wrong_count(count: int) -> str:
    wanted = "five fields are needed: minute hour day-of-month month day-of-week"
    if count in (6, 7):
        return f"This has {count} fields; {wanted}. Leave out seconds and years: parsers disagree on them."
    return f"This has {count if count > 1 else 'too few'} fields; {wanted}, such as 0 2 * * *."


def _expand(column: _Field, spelling: str) -> str:
    """The field as croniter gets it: ``*`` for every value, else a list of ``3``, ``l``, ``l5``, ``5#2``."""
    terms = spelling.split(",")
    values: set[int] = set()
    special: list[str] = []
    for term in terms:
        if term.startswith("*") and len(terms) > 1:
            _refuse(
                f"{column.name}: {term} cannot stand in a list; write it as a range, such as "
                f"{term.replace('*', f'{column.low}-{column.last}')}."
            )
        if (named_day := _special(column, term)) is not None:
            special.append(named_day)
        else:
            values |= _values(column, term)
    if special and values and column is _WEEKDAY:
        _refuse(f"{column.name}: {spelling} mixes L or # with plain weekdays; make a job for each.")
    if values == column.everything:
        return "*"
    return ",".join([*map(str, sorted(values)), *special])


def _special(column: _Field, term: str) -> str | None:
    """croniter's spelling of a day named by ``L`` or ``#``, or None; refuses their disputed forms."""
    where = f"{column.name}: {term}"
    if term == "?" or _FOREIGN.fullmatch(term):
        _refuse(f"{where} is not a fixed time; write the number, or * for every {column.name}.")
    if column is _DAY and term == "L":
        return "l"
    if column is _DAY and re.search("[LW]", term):
        _refuse(f"{where} is not supported; write the days as numbers, or L for the last one.")
    if column is not _WEEKDAY:
        return None
    if match := _NTH.fullmatch(term):
        if not 1 <= int(match["nth"][:3]) <= 5:
            _refuse(f"{where} asks for an occurrence that no month has; write a number from 1 to 5 after #.")
        return f"{_number(column, match['day'], term) % 7}#{int(match['nth'])}"
    if term == "L" or re.fullmatch("[0-9]L", term):
        _refuse(
            f"{where} is read differently by parsers; write L5 for the last Friday, L1 for the last Monday."
        )
    if re.fullmatch("L([0-7]|" + "|".join(column.names) + ")", term):
        return f"l{_number(column, term[1:], term) % 7}"
    return None


def _values(column: _Field, term: str) -> set[int]:
    """The numbers a plain term stands for: ``*``, ``7``, ``1-5``, ``*/15`` or ``8-18/2``."""
    match = _TERM.fullmatch(term)
    if match is None:
        _refuse(f"{column.name}: {term[:20] or 'an empty list entry'} is not a number, name, range or step.")
    if match["star"]:
        low, high = column.low, column.last
    else:
        low = _number(column, match["low"], term)
        high = _number(column, match["high"], term) if match["high"] else low
    if match["high"]:
        _check_range(column, term, low, high)
    step = int(match["step"] or 1)
    if match["step"]:
        _check_step(column, term, low, high, step=step, single=not (match["star"] or match["high"]))
    return {0 if column is _WEEKDAY and value == 7 else value for value in range(low, high + 1, step)}


def _number(column: _Field, word: str, term: str) -> int:
    if word in column.names:
        return column.low + column.names.index(word)
    if not re.fullmatch("[0-9]{1,2}", word) or not column.low <= int(word) <= column.high:
        names = f", or {column.names[0]}-{column.names[-1]}" if column.names else ""
        _refuse(f"{column.name}: {term[:20]} is out of range; values are {column.low}-{column.high}{names}.")
    return int(word)


def _check_range(column: _Field, term: str, low: int, high: int) -> None:
    if low == high:
        _refuse(f"{column.name}: {term} is one value to some parsers and every value to others; write {low}.")
    if low > high:
        head = f"{low}-{column.last}" if low < column.last else f"{low}"
        tail = f"{column.low}-{high}" if high > column.low else f"{high}"
        _refuse(f"{column.name}: {term} runs backwards; write {head},{tail} if it is to wrap around.")


def _check_step(column: _Field, term: str, low: int, high: int, *, step: int, single: bool) -> None:
    if single:
        _refuse(f"{column.name}: {term} is read differently by parsers; write {low}-{column.last}/{step}.")
    if not 1 <= step <= high - low:
        _refuse(
            f"{column.name}: the step of {term} must be from 1 to {high - low}, the length of its range; "
            f"to fire at {low} alone write {low}."
        )


def _check_days(day: str, days: str, weekday: str, weekdays: str) -> None:
    """Refuse the pairs of day-of-month and day-of-week that parsers join differently."""
    if "*" in (day, weekday) or (days == "*" and weekdays == "*"):
        return
    for column, spelling, expanded in ((_DAY, day, days), (_WEEKDAY, weekday, weekdays)):
        if spelling.startswith("*") or expanded == "*":
            _refuse(
                f"{column.name}: {spelling} together with a day of the other kind is joined with OR by some "
                f"parsers and with AND by others; write * in one of the two, or list the days as numbers."
            )
    if re.search("[L#]", weekday):
        _refuse(
            f"{_WEEKDAY.name}: {weekday} together with a day-of-month is joined with OR by some parsers "
            "and with AND by others; make a job for each."
        )

"""Fire times by brute force: every second or minute of a stretch is looked at, in UTC, and DESIGN §9 read out.

Independent of the code that it judges: cron fields are matched value by value, zones are asked at instants only (never
"what is the instant of this wall-clock time"), and a gap is seen as a jump of the local clock.
"""

import calendar
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
Matcher = Callable[[datetime], bool]


@cache
def numbers(field: str, low: int, high: int, names: tuple[str, ...], *, first: int) -> set[int]:
    """The values of a plain field; ``names`` stand for ``first`` and on."""
    for number, name in enumerate(names, start=first):
        field = field.replace(name, str(number))
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        start, _, end = span.partition("-")
        if start == "*":
            start, end = str(low), str(high)
        end = end or (str(high) if step else start)
        found |= set(range(int(start), int(end) + 1, int(step or 1)))
    return found


def matcher(expression: str) -> tuple[Matcher, bool]:
    """Whether a wall-clock time matches, and whether the schedule is a wildcard one. Six fields are quartz."""
    fields = expression.upper().split()
    quartz = len(fields) == 6
    second, minute, hour, day, month, weekday = fields if quartz else ["0", *fields]
    day, weekday = day.replace("?", "*"), weekday.replace("?", "*")
    seconds, minutes = (numbers(field, 0, 59, (), first=0) for field in (second, minute))
    hours = numbers(hour, 0, 23, (), first=0)
    months = numbers(month, 1, 12, MONTHS, first=1)
    first = 1 if quartz else 0

    def day_matches(wall: datetime) -> bool:
        last = calendar.monthrange(wall.year, wall.month)[1]
        return any(
            moving_day(wall, term, last)
            if set("LW") & set(term)
            else wall.day in numbers(term, 1, 31, (), first=1)
            for term in day.split(",")
        )

    def moving_day(wall: datetime, term: str, last: int) -> bool:
        """``L``, ``L-3``, and with ``W`` the day from Monday to Friday of the month that lies nearest to it."""
        plain = term.replace("W", "")
        asked = last - int(plain[2:] or 0) if plain.startswith("L") else int(plain)
        if not 1 <= asked <= last:
            return False
        if "W" not in term:
            return wall.day == asked
        if term == "LW":
            return wall.day == max(day for day in range(1, last + 1) if works(wall, day))
        distance = min(abs(day - asked) for day in range(1, last + 1) if works(wall, day))
        return works(wall, wall.day) and abs(wall.day - asked) == distance

    def works(wall: datetime, day: int) -> bool:
        return wall.replace(day=day).isoweekday() <= 5

    def weekday_matches(wall: datetime) -> bool:
        return any(one_weekday(wall, term) for term in weekday.split(","))

    def one_weekday(wall: datetime, term: str) -> bool:
        last = calendar.monthrange(wall.year, wall.month)[1]
        plain, _, nth = term.replace("L", "").partition("#")
        values = {(n - first) % 7 for n in numbers(plain, first, first + 6, WEEKDAYS, first=first)}
        placed = wall.day > last - 7 if "L" in term else not nth or (wall.day - 1) // 7 + 1 == int(nth)
        return wall.isoweekday() % 7 in values and placed

    def matches(wall: datetime) -> bool:
        if not (wall.second in seconds and wall.minute in minutes and wall.hour in hours):
            return False
        if wall.month not in months:
            return False
        if "*" in (day, weekday):
            return day_matches(wall) and weekday_matches(wall)
        return day_matches(wall) or weekday_matches(wall)

    return matches, minute.startswith("*") or hour.startswith("*")


def walk(expression: str, zone: ZoneInfo, policy: str, *, after: datetime, until: datetime) -> list[datetime]:
    """Instants that fire by DESIGN §9 with ``after < t <= until``, both whole minutes, or seconds for six fields."""
    matches, wildcard = matcher(expression)
    step = timedelta(seconds=1) if len(expression.split()) == 6 else timedelta(minutes=1)
    fires = []
    instant = after
    while instant < until:
        earlier, instant = instant, instant + step
        local, previous = (moment.astimezone(zone) for moment in (instant, earlier))
        wall = local.replace(tzinfo=None, fold=0)
        moved = not wildcard and policy != "skip" and leapt(matches, previous, wall, step)
        if moved or (matches(wall) and (not local.fold or wildcard or policy == "both")):
            fires.append(instant.astimezone(UTC))
    return fires


def leapt(matches: Matcher, previous: datetime, wall: datetime, step: timedelta) -> bool:
    """Whether the local clock jumped over a wall-clock time that matches, on its way from ``previous`` to ``wall``."""
    missing = previous.replace(tzinfo=None, fold=0) + step
    while missing < wall:
        if matches(missing):
            return True
        missing += step
    return False

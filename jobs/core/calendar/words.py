"""A schedule in words, for people who check that it is the one they meant.

cron-descriptor puts cron into words. Carillon fires some spellings differently from how cron-descriptor reads them. So
it gets the lists that the expression was expanded to, in the plainest spelling that means the same. Days for which it
has no words are put into words here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cron_descriptor import ExpressionDescriptor, Options

from jobs.core.schedule import Schedule, ScheduleType, expression_of

_OPTIONS = Options()
_OPTIONS.locale_code = "en_US"
_OPTIONS.use_24hour_time_format = True
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_PLACES = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "l": "last"}
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
#: Fields whose steps start again with each hour or day, so that "every 15" is true only if it divides this.
_DIVISIBLE = (60, 60, 24)


def describe(schedule: Schedule) -> str:
    """Such as ``At 02:00, Monday through Friday, in Europe/Berlin`` or ``Every 90 seconds``.

    Raises ``ScheduleError`` when the schedule can no longer be computed.
    """
    if schedule.type == ScheduleType.CRON:
        text = f"{_cron_in_words(expression_of(schedule).lists)}, in {schedule.timezone}"
    elif schedule.type == ScheduleType.INTERVAL and schedule.every is not None:
        text = f"Every {duration_in_words(schedule.every)}"
    elif schedule.type == ScheduleType.ONCE and schedule.run_at is not None:
        text = f"Once, at {_instant(schedule.run_at)}"
    else:
        text = "Once, as soon as it is created"
    starts = f", from {_instant(schedule.starts_at)}" if schedule.starts_at else ""
    ends = f", until {_instant(schedule.ends_at)}" if schedule.ends_at else ""
    return text + starts + ends


def _cron_in_words(lists: Sequence[str]) -> str:
    seconds, minutes, hours, days, months, weekdays = lists
    own_days = _days_in_words(days, weekdays)
    if own_days:
        days, weekdays = "*", "*"
    times = (_plainest(each, size) for each, size in zip((seconds, minutes, hours), _DIVISIBLE, strict=True))
    fields = [*times, _plainest(days), _plainest(months), _plainest(weekdays)]
    words = str(ExpressionDescriptor(" ".join(fields), _OPTIONS).get_description())
    return f"{words}, on {own_days}" if own_days else words


def _days_in_words(days: str, weekdays: str) -> str:
    """Days named by ``L``, ``W`` or ``#``, or by both fields; empty if there are none: then the library's words do."""
    if not set("lw#") & set(days + weekdays) and "*" in (days, weekdays):
        return ""
    named = []
    numbers = [term for term in days.split(",") if term.isdigit()]
    if numbers:
        named.append(f"day {_joined(numbers)} of the month")
    named += [_moving_day(term) for term in days.split(",") if set("lw") & set(term)]
    ordinary = [term for term in weekdays.split(",") if term.isdigit()]
    if ordinary:
        named.append(f"every {_joined([_WEEKDAYS[int(term)] for term in ordinary])}")
    special = [term for term in weekdays.split(",") if set("l#") & set(term)]
    if special:
        named.append(f"the {_joined([_special_weekday(term) for term in special])} of the month")
    return _joined(named)


def _moving_day(term: str) -> str:
    """``l``, ``15w``, ``lw``, ``l-3`` or ``l-3w``."""
    plain, nearest = term.rstrip("w"), term.endswith("w")
    if term == "lw":
        return "the last weekday (Monday to Friday) of the month"
    before = plain.removeprefix("l-")
    if plain.isdigit():
        day = f"day {plain} of the month"
    elif plain == "l":
        day = "the last day of the month"
    else:
        day = f"{before} day{'' if before == '1' else 's'} before the last day of the month"
    return f"the weekday (Monday to Friday) nearest {day}" if nearest else day


def _special_weekday(term: str) -> str:
    """``l5`` or ``5#2``."""
    day, place = (term[1], "l") if term.startswith("l") else term.split("#")
    return f"{_PLACES[place]} {_WEEKDAYS[int(day)]}"


def _plainest(expanded: str, size: int | None = None) -> str:
    """``*/15`` for a list that is exactly that within ``size``, ``1-5`` for one without holes, else the list."""
    if not expanded[0].isdigit() or "," not in expanded:
        return expanded
    values = [int(value) for value in expanded.split(",")]
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(steps) > 1 or len(values) < 3:
        return expanded
    (step,) = steps
    if step == 1:
        return f"{values[0]}-{values[-1]}"
    return f"*/{step}" if size == step * len(values) and values[0] == 0 else expanded


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def duration_in_words(duration: timedelta) -> str:
    """``hour``, ``90 seconds``, ``2 days``: in the largest unit of which it is a whole number, else in seconds."""
    total = duration.total_seconds()
    name, size = next(((name, size) for name, size in _UNITS if total % size == 0), ("second", 1))
    count = total / size
    return name if count == 1 else f"{count:g} {name}s"


def _instant(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

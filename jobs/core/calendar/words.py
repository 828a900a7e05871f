"""A schedule in words, for people who check that they wrote what they meant.

Cron is put into words by cron-descriptor. It reads some spellings otherwise than they fire, so it is given the lists
the expression was expanded to, in the plainest spelling that means the same; days it has no words for are ours.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cron_descriptor import ExpressionDescriptor, Options

from jobs.core.schedule import Schedule, ScheduleType, expression_of

_OPTIONS = Options(locale_code="en_US", use_24hour_time_format=True)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_PLACES = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "l": "last"}
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
#: Fields whose steps begin anew with each hour or day, so that "every 15" is true only if it divides this.
_DIVISIBLE = (60, 60, 24)


def describe(schedule: Schedule) -> str:
    """Such as ``At 02:00, Monday through Friday, in Europe/Berlin`` or ``Every 90 seconds``.

    Raises ``ScheduleError`` when the schedule can no longer be computed.
    """
    if schedule.type == ScheduleType.CRON:
        text = f"{_cron_in_words(expression_of(schedule).lists)}, in {schedule.timezone}"
    elif schedule.type == ScheduleType.INTERVAL and schedule.every is not None:
        text = f"Every {_duration(schedule.every)}"
    elif schedule.type == ScheduleType.ONCE and schedule.run_at is not None:
        text = f"Once, at {_instant(schedule.run_at)}"
    else:
        text = "Once, as soon as it is created"
    starts = f", from {_instant(schedule.starts_at)}" if schedule.starts_at else ""
    ends = f", until {_instant(schedule.ends_at)}" if schedule.ends_at else ""
    return text + starts + ends


def _cron_in_words(lists: Sequence[str]) -> str:
    seconds, minutes, hours, days, months, weekdays = lists
    own_day = _special_days(days, weekdays)
    if own_day:
        days, weekdays = "*", "*"
    fields = [
        *(_plainest(each, size) for each, size in zip((seconds, minutes, hours), _DIVISIBLE, strict=True)),
        _plainest(days),
        _plainest(months),
        _plainest(weekdays),
    ]
    # The library reads "0" seconds as none, and six fields as seconds first.
    words = ExpressionDescriptor(" ".join(fields), _OPTIONS).get_description()
    return f"{words}, {own_day}" if own_day else words


def _special_days(days: str, weekdays: str) -> str:
    """Days named by ``L`` or ``#``, and ordinary ones beside them; empty when there are none."""
    if not set("l#") & set(days + weekdays):
        return ""
    named = []
    numbers = [term for term in days.split(",") if term.isdigit()]
    if numbers:
        named.append(f"day {_joined(numbers)}")
    if "l" in days.split(","):
        named.append("the last day of the month")
    for term in weekdays.split(",") if weekdays != "*" else ():
        if term.isdigit():
            named.append(f"every {_WEEKDAYS[int(term)]}")
        else:
            day, place = (term[1], "l") if term[0] == "l" else term.split("#")
            named.append(f"the {_PLACES[place]} {_WEEKDAYS[int(day)]}")
    suffix = " of the month" if weekdays != "*" and "last day" not in " ".join(named) else ""
    return f"on {_joined(named)}{suffix}"


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


def _duration(duration: timedelta) -> str:
    """``hour``, ``90 seconds``, ``2 days``: in the largest unit it is a whole number of, seconds else."""
    total = duration.total_seconds()
    name, size = next(((name, size) for name, size in _UNITS if total % size == 0), ("second", 1))
    count = total / size
    return name if count == 1 else f"{count:g} {name}s"


def _instant(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

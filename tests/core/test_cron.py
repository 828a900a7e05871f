"""Which cron expressions are accepted, what they mean, and what each refusal tells."""

import calendar
from datetime import datetime, timedelta
from itertools import islice

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs.core.cron import parse_cron
from jobs.core.errors import InvalidInput

#: Expression, and a part of the refusal that says what would be right.
REFUSED = [
    ("", "five fields"),
    ("   ", "five fields"),
    ("* * * *", "This has 4 fields"),
    ("0 0 2 * * *", "This has 6 fields"),
    ("0 0 2 * * * 2030", "This has 7 fields"),
    ("0 " * 60 + "0", "at most 100"),
    ("0 0 \u0661 * *", "ASCII"),
    ("0\u00a00 * * *", "ASCII"),
    ("0 0\n* * *", "line breaks"),
    ("0 0\x00 * * *", "printable"),
    ("@reboot", "@hourly"),
    ("@midnight", "@daily"),
    ("R R * * *", "not a fixed time"),
    ("H(0-29)/10 * * * *", "not a fixed time"),
    ("0 H * * *", "not a fixed time"),
    ("0 0 ? * MON", "write the number, or *"),
    ("0 0 1 * ?", "write the number, or *"),
    ("5-5 * * * *", "write 5"),
    ("0 0 * * MON-MON", "write 1"),
    ("0 22-2 * * *", "22-23,0-2"),
    ("0 0 * * SAT-MON", "6,0-1"),
    ("0 0 * * FRI-SUN", "5-6,0"),
    ("0 0 * NOV-JAN *", "11-12,1"),
    ("5/15 * * * *", "5-59/15"),
    ("0 0 * * MON/2", "1-6/2"),
    ("*/90 * * * *", "from 1 to 59"),
    ("*/60 * * * *", "from 1 to 59"),
    ("0 */24 * * *", "write 0"),
    ("*/0 * * * *", "from 1 to 59"),
    ("10-20/11 * * * *", "from 1 to 10"),
    ("0 0 */2 * 1", "write * in one of the two"),
    ("0 0 1 * */2", "write * in one of the two"),
    ("0 0 1-31 * 1", "write * in one of the two"),
    ("0 0 15 * 0-6", "write * in one of the two"),
    ("0 0 1 * 5#2", "make a job for each"),
    ("0 0 L * L5", "make a job for each"),
    ("0 0 * * 1,5#2", "make a job for each"),
    ("0 0 15W * *", "write the days as numbers"),
    ("0 0 LW * *", "write the days as numbers"),
    ("0 0 L-3 * *", "write the days as numbers"),
    ("0 0 * * L", "write L5"),
    ("0 0 * * 5L", "write L5"),
    ("0 0 * * 5#6", "from 1 to 5"),
    ("0 0 * * 5#0", "from 1 to 5"),
    ("0 0 30 2 *", "never fires"),
    ("0 0 31 4,6,9,11 *", "never fires"),
    ("60 * * * *", "values are 0-59"),
    ("0 24 * * *", "values are 0-23"),
    ("0 0 0 * *", "values are 1-31"),
    ("0 0 1 13 *", "values are 1-12, or JAN-DEC"),
    ("0 0 * * 8", "values are 0-7, or SUN-SAT"),
    ("0 0 * * MOO", "values are 0-7, or SUN-SAT"),
    ("1,,2 * * * *", "empty list entry"),
    ("*,5 * * * *", "0-59"),
    ("*/15,50 * * * *", "0-59/15"),
    ("1-2-3 * * * *", "is not a number"),
    ("-5 * * * *", "is not a number"),
    ("1_0 * * * *", "is not a number"),
    ("*/1e1 * * * *", "is not a number"),
    ("007 * * * *", "values are 0-59"),
]


class TestParseCron:
    @pytest.mark.parametrize(("text", "advice"), REFUSED)
    def test_refuses_with_the_reason_and_what_would_be_right(self, text, advice):
        with pytest.raises(InvalidInput) as refusal:
            parse_cron(text)
        assert advice in refusal.value.errors["cron"][0]

    @pytest.mark.parametrize(
        ("text", "normal"),
        [
            ("  0\t2  * * *\n", "0 2 * * *"),
            ("0 0 * jan mon-Fri", "0 0 * JAN MON-FRI"),
            ("@Daily ", "@daily"),
        ],
    )
    def test_normalises_white_space_and_case(self, text, normal):
        assert parse_cron(text).text == normal

    @pytest.mark.parametrize(
        ("text", "wildcard"),
        [
            ("* * * * *", True),
            ("*/20 1 * * *", True),
            ("30 * * * *", True),
            ("@hourly", True),
            ("30 1 * * *", False),
            ("0-59 0-23 * * *", False),
            ("@daily", False),
        ],
    )
    def test_calls_wildcard_what_begins_with_a_star_in_minute_or_hour(self, text, wildcard):
        assert parse_cron(text).wildcard is wildcard


#: Expression, a start, and the next wall-clock times.
MEANINGS = [
    ("0 0 29 2 *", "2026-01-01", ["2028-02-29", "2032-02-29"]),
    ("0 0 29 2 *", "2096-03-01", ["2104-02-29"]),
    ("0 0 L * *", "2027-01-31", ["2027-02-28", "2027-03-31", "2027-04-30"]),
    ("0 0 15,L 2 *", "2028-01-01", ["2028-02-15", "2028-02-29", "2029-02-15"]),
    ("0 0 31,L * *", "2026-01-01", ["2026-01-31", "2026-02-28", "2026-03-31"]),
    ("0 0 * * L5", "2026-01-01", ["2026-01-30", "2026-02-27", "2026-03-27"]),
    ("0 0 * * LFRI", "2026-01-01", ["2026-01-30"]),
    ("0 0 * * L7", "2026-01-01", ["2026-01-25"]),
    ("0 0 * * FRI#2", "2026-01-01", ["2026-01-09", "2026-02-13"]),
    ("0 0 * * 1#1,1#3", "2026-01-01", ["2026-01-05", "2026-01-19", "2026-02-02"]),
    ("0 0 * * 1#5", "2026-01-01", ["2026-03-30", "2026-06-29"]),
    ("0 0 * 2 1#5", "2026-01-01", ["2044-02-29"]),
    ("0 0 13 * FRI", "2026-03-01", ["2026-03-06", "2026-03-13", "2026-03-20", "2026-03-27", "2026-04-03"]),
    ("0 0 30 2 MON", "2026-02-01", ["2026-02-02", "2026-02-09"]),
    ("0 0 L * SUN", "2026-01-20", ["2026-01-25", "2026-01-31", "2026-02-01"]),
    ("0 0 * * 7", "2026-01-01", ["2026-01-04"]),
    ("0 0 * * 5-7", "2026-01-01", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
    ("0 0 * * 1-7/3", "2026-01-04", ["2026-01-05", "2026-01-08", "2026-01-11"]),
    ("0 0 * * */2", "2026-01-01", ["2026-01-03", "2026-01-04", "2026-01-06"]),
    ("0 0 1 */5 *", "2026-01-02", ["2026-06-01", "2026-11-01", "2027-01-01"]),
    ("0 0 */10 * *", "2026-02-02", ["2026-02-11", "2026-02-21", "2026-03-01"]),
    ("@weekly", "2026-01-01", ["2026-01-04"]),
    ("@monthly", "2026-01-01", ["2026-02-01"]),
    ("@yearly", "2026-01-01", ["2027-01-01"]),
]


class TestWalls:
    @pytest.mark.parametrize(("text", "after", "days"), MEANINGS)
    def test_names_the_days_of_the_calendar(self, text, after, days):
        walls = parse_cron(text).walls(after=datetime.fromisoformat(after))
        assert list(islice(walls, len(days))) == [datetime.fromisoformat(day) for day in days]

    def test_of_one_caller_do_not_move_those_of_another(self):
        first, second = (parse_cron("0 * * * *").walls(after=datetime(2026, 1, day)) for day in (1, 2))
        assert [next(first), next(second), next(first)] == [
            datetime(2026, 1, 1, 1),
            datetime(2026, 1, 2, 1),
            datetime(2026, 1, 1, 2),
        ]

    @settings(max_examples=60, deadline=None)
    @given(
        minutes=st.sets(st.integers(0, 59), min_size=1, max_size=4),
        hours=st.sets(st.integers(0, 23), min_size=1, max_size=3),
        days=st.sets(st.integers(1, 31), max_size=4),
        last=st.booleans(),
        months=st.sets(st.integers(1, 12), min_size=1, max_size=4),
        weekdays=st.sets(st.integers(0, 6), max_size=3),
        start=st.datetimes(datetime(2000, 1, 1), datetime(2095, 1, 1)),
    )
    def test_agree_with_counting_every_day(self, minutes, hours, days, last, months, weekdays, start):
        def listed(values):
            return ",".join(map(str, sorted(values))) or "*"

        day_field = ",".join([*map(str, sorted(days)), *(["L"] if last else [])]) or "*"
        text = f"{listed(minutes)} {listed(hours)} {day_field} {listed(months)} {listed(weekdays)}"
        assume(weekdays or last or not days or min(days) <= 28)

        def matches(day):
            by_day = day.day in days or (last and day.day == calendar.monthrange(day.year, day.month)[1])
            by_weekday = day.isoweekday() % 7 in weekdays
            return day.month in months and (by_day or by_weekday or not (days or last or weekdays))

        expected = []
        day = start.replace(hour=0, minute=0, second=0, microsecond=0)
        while len(expected) < 12:
            if matches(day):
                times = [day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
                expected += sorted(time for time in times if time > start)
            day += timedelta(days=1)
        assert list(islice(parse_cron(text).walls(after=start), 12)) == expected[:12]

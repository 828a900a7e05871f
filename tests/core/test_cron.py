"""Cron expressions that are accepted, their meaning, and the words of each refusal."""

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
    ("0 0 15W * *", "belongs to the quartz dialect"),
    ("0 0 LW * *", "belongs to the quartz dialect"),
    ("0 0 L-3 * *", "belongs to the quartz dialect"),
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

#: The same for six fields.
REFUSED_QUARTZ = [
    ("0 2 * * *", "six: second minute hour"),
    ("0 2 * * *", "leave out cron_dialect"),
    ("0 0 2 * * ? 2030", "Leave out the year and set ends_at"),
    ("@daily", "Macros belong to the unix dialect"),
    ("0 0 2 ? * ?", "write * in day-of-month"),
    ("0 0 2 15 * MON", "write ? in one of the two"),
    ("0 0 2 L * 6L", "make a job for each"),
    ("0 0 ? * * *", "write the number, or *"),
    ("? 0 2 * * *", "write the number, or *"),
    ("0 0 2 ? * 0", "values are 1-7, or SUN-SAT"),
    ("0 0 2 ? * 8", "values are 1-7, or SUN-SAT"),
    ("0 0 2 32W * ?", "values are 1-31"),
    ("0 0 2 W * ?", "such as 15W, LW, L-3 or L-3W"),
    ("0 0 2 1-5W * ?", "such as 15W, LW, L-3 or L-3W"),
    ("0 0 2 WL * ?", "such as 15W, LW, L-3 or L-3W"),
    ("0 0 2 L-0 * ?", "from 1 to 30"),
    ("0 0 2 L-31 * ?", "from 1 to 30"),
    ("0 0 2 L-0W * ?", "from 1 to 30"),
    ("0 0 2 L+3 * ?", "such as 15W, LW, L-3 or L-3W"),
    ("0 0 2 15W * MON", "make a job for each"),
    ("0 0 2 31W 2 ?", "never fires"),
    ("0 0 2 L-30 2,4 ?", "never fires"),
    ("0 0 2 L-3W * ? 2030", "Leave out the year and set ends_at"),
    ("0 0 2 ? * L", "write 6L for the last Friday"),
    ("0 0 2 ? * L6", "write 6L for the last Friday"),
    ("0 0 2 ? * LFRI", "write 6L for the last Friday"),
    ("0 0 2 ? * 6#6", "from 1 to 5"),
    ("0 0 2 ? * 2,6L", "make a job for each"),
    ("0 0 2 ? * SAT-MON", "7,1-2"),
    ("0 0 22-2 * * ?", "22-23,0-2"),
    ("0 5-5 * * * ?", "write 5"),
    ("0 0/90 * * * ?", "from 1 to 59"),
    ("0 50/15 * * * ?", "to fire at 50 alone write 50"),
    ("0 0/0 * * * ?", "from 1 to 59"),
    ("*/90 * * * * ?", "second (field 1, character 1)"),
    ("0 0 2 ? * MON/2", "write 2-7/2"),
    ("0 /15 * * * ?", "is not a number"),
    ("60 * * * * ?", "values are 0-59"),
    ("0 0 2 30 2 ?", "never fires"),
    ("0 0 2 H * ?", "not a fixed time"),
    ("0 0 2 *,5 * ?", "1-31"),
]
#: Where a refusal points: expression, dialect, and how it begins.
PLACES = [
    ("61 * * * *", "unix", "minute (field 1, character 1): 61 "),
    ("0 24 * * *", "unix", "hour (field 2, character 3): 24 "),
    ("0 9-17,24 * * *", "unix", "hour (field 2, character 8): 24 "),
    ("  0   24 * * *", "unix", "hour (field 2, character 7): 24 "),
    ("0\t0 0 * *", "unix", "day-of-month (field 3, character 5): 0 "),
    ("0 0 1 jan,foo *", "unix", "month (field 4, character 11): FOO "),
    ("0 0 * * 1,5#2", "unix", "day-of-week (field 5, character 9): 1,5#2 "),
    ("0 0 */2 * 1", "unix", "day-of-month (field 3, character 5): */2 "),
    ("0 0 30 2 *", "unix", "day-of-month (field 3, character 5): 30 "),
    ("1,,2 * * * *", "unix", "minute (field 1, character 3): an empty list entry "),
    ("61 0 2 * * ?", "quartz", "second (field 1, character 1): 61 "),
    ("0 0 2 ? * 0", "quartz", "day-of-week (field 6, character 11): 0 "),
]


class TestParseCron:
    @pytest.mark.parametrize(("text", "advice"), REFUSED)
    def test_refuses_with_the_reason_and_what_would_be_right(self, text, advice):
        with pytest.raises(InvalidInput) as refusal:
            parse_cron(text)
        assert advice in refusal.value.errors["cron"][0]

    @pytest.mark.parametrize(("text", "advice"), REFUSED_QUARTZ)
    def test_refuses_quartz_with_the_reason_and_what_would_be_right(self, text, advice):
        with pytest.raises(InvalidInput) as refusal:
            parse_cron(text, "quartz")
        assert advice in refusal.value.errors["cron"][0]

    @pytest.mark.parametrize(("text", "dialect", "beginning"), PLACES)
    def test_says_which_field_it_refuses_and_where_it_stands(self, text, dialect, beginning):
        with pytest.raises(InvalidInput) as refusal:
            parse_cron(text, dialect)
        assert refusal.value.errors["cron"][0].startswith(beginning)

    @settings(max_examples=600, deadline=None)
    @given(
        st.lists(st.text("0159*/,-?#LW JANSUFRI@H\t", max_size=7), max_size=7),
        st.sampled_from(("unix", "quartz")),
    )
    def test_refuses_or_reads_whatever_it_is_given(self, fields, dialect):
        try:
            expression = parse_cron(" ".join(fields), dialect)
        except InvalidInput:
            return
        assert parse_cron(expression.text, dialect) == expression
        assert next(expression.walls(after=datetime(2000, 1, 1))) > datetime(2000, 1, 1)

    def test_refuses_a_dialect_it_does_not_know(self):
        with pytest.raises(ValueError, match="spring"):
            parse_cron("0 0 2 * * *", "spring")

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


#: The same of six fields, and the next wall-clock times.
QUARTZ_MEANINGS = [
    ("0 0 2 * * ?", ["2026-01-01T02:00", "2026-01-02T02:00"]),
    ("0 0 2 * * *", ["2026-01-01T02:00", "2026-01-02T02:00"]),
    ("0 0 2 ? * *", ["2026-01-01T02:00", "2026-01-02T02:00"]),
    ("30 15 10 ? * MON-FRI", ["2026-01-01T10:15:30", "2026-01-02T10:15:30", "2026-01-05T10:15:30"]),
    ("0 15 10 ? * 2-6", ["2026-01-01T10:15", "2026-01-02T10:15", "2026-01-05T10:15"]),
    ("0 0 0 ? * 1", ["2026-01-04T00:00", "2026-01-11T00:00"]),
    ("0 0 0 ? * 7", ["2026-01-03T00:00", "2026-01-10T00:00"]),
    ("0 0 0 ? * SUN,7", ["2026-01-03T00:00", "2026-01-04T00:00"]),
    ("0 0 0 ? * 6L", ["2026-01-30T00:00", "2026-02-27T00:00"]),
    ("0 0 0 ? * FRIL", ["2026-01-30T00:00", "2026-02-27T00:00"]),
    ("0 0 0 ? * 6#3", ["2026-01-16T00:00", "2026-02-20T00:00"]),
    ("0 0 0 ? * FRI#3", ["2026-01-16T00:00", "2026-02-20T00:00"]),
    ("0 0 0 ? * 2/2", ["2026-01-02T00:00", "2026-01-05T00:00", "2026-01-07T00:00"]),
    ("0 0 0 ? * */2", ["2026-01-03T00:00", "2026-01-04T00:00", "2026-01-06T00:00"]),
    ("0 0 0 L * ?", ["2026-01-31T00:00", "2026-02-28T00:00"]),
    ("0 0 0 15W * ?", ["2026-01-15T00:00", "2026-02-16T00:00", "2026-03-16T00:00"]),
    ("0 0 0 1W * ?", ["2026-02-02T00:00", "2026-03-02T00:00", "2026-04-01T00:00"]),
    ("0 0 0 1W 8 ?", ["2026-08-03T00:00", "2027-08-02T00:00"]),
    ("0 0 0 31W * ?", ["2026-01-30T00:00", "2026-03-31T00:00", "2026-05-29T00:00"]),
    ("0 0 0 LW * ?", ["2026-01-30T00:00", "2026-02-27T00:00", "2026-03-31T00:00"]),
    ("0 0 0 L-3 * ?", ["2026-01-28T00:00", "2026-02-25T00:00", "2026-03-28T00:00"]),
    ("0 0 0 L-3W * ?", ["2026-01-28T00:00", "2026-02-25T00:00", "2026-03-27T00:00"]),
    ("0 0 0 L-30 * ?", ["2026-03-01T00:00", "2026-05-01T00:00", "2026-07-01T00:00"]),
    ("0 0 0 1,15W,L * ?", ["2026-01-15T00:00", "2026-01-31T00:00", "2026-02-01T00:00"]),
    ("0 0 12 1/1 * ?", ["2026-01-01T12:00", "2026-01-02T12:00"]),
    ("0 0/15 8 * * ?", ["2026-01-01T08:00", "2026-01-01T08:15", "2026-01-01T08:30", "2026-01-01T08:45"]),
    ("0 5/20 8 * * ?", ["2026-01-01T08:05", "2026-01-01T08:25", "2026-01-01T08:45", "2026-01-02T08:05"]),
    ("*/25 59 23 31 12 ?", ["2026-12-31T23:59", "2026-12-31T23:59:25", "2026-12-31T23:59:50"]),
    ("0,59 0 0 1 1/6 ?", ["2026-01-01T00:00:59", "2026-07-01T00:00", "2026-07-01T00:00:59"]),
]


class TestWalls:
    @pytest.mark.parametrize(("text", "times"), QUARTZ_MEANINGS)
    def test_name_the_seconds_and_days_quartz_means(self, text, times):
        walls = parse_cron(text, "quartz").walls(after=datetime(2026, 1, 1))
        assert list(islice(walls, len(times))) == [datetime.fromisoformat(time) for time in times]

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

"""A timetable counts and picks the very instants that ``fire_times`` lists, at every moment that is asked for."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.calendar.timetable import timetable
from jobs.core.errors import ScheduleError
from jobs.core.instants import LATEST
from jobs.core.schedule import Schedule, ScheduleType, fire_times
from tests.core.test_fire_time_properties import (
    DATES,
    HOURS,
    ZONES,
    cron,
    examples,
    moments,
    numbers,
    schedules,
)

pytestmark = pytest.mark.slow

TICK = timedelta(microseconds=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def interval(every: timedelta, **times: datetime) -> Schedule:
    return Schedule(ScheduleType.INTERVAL, every=every, **times)


@st.composite
def intervals(draw: st.DrawFn) -> Schedule:
    """Some with a ``starts_at`` and an ``ends_at``, around the start of 2026."""
    offset = st.integers(-(10**11), 10**11).map(lambda us: START + us * TICK)
    bounds = {"starts_at": draw(st.none() | offset), "ends_at": draw(st.none() | offset)}
    return interval(draw(st.integers(10**9, 10**11)) * TICK, anchor=draw(offset), **bounds)


def agrees(schedule: Schedule, after: datetime, until: datetime, asked: list[datetime]) -> None:
    listed = fire_times(schedule, after=after, until=until, limit=1_000_000)
    counted = timetable(schedule, after=after, until=until)
    assert len(counted) == len(listed)
    assert [counted.nth(index) for index in range(len(listed))] == listed
    around = [at + shift for at in listed[:: len(listed) // 50 + 1] for shift in (-TICK, TICK * 0, TICK)]
    for moment in [*asked, *around, after, until]:
        rank = bisect_right(listed, moment)
        assert counted.rank(moment) == rank
        assert counted.names(moment) == (moment in listed[rank - 1 : rank])


class TestATimetable:
    @examples(400)
    @given(st.data())
    def test_has_what_cron_names_where_clocks_change(self, data: st.DataObject) -> None:
        schedule = data.draw(schedules())
        after = data.draw(moments(schedule.timezone)) + data.draw(st.integers(0, 59_999_999)) * TICK
        until = after + timedelta(seconds=data.draw(st.integers(0, 2 * 86_400)))
        agrees(schedule, after, until, [data.draw(moments(schedule.timezone))])

    @examples(100)
    @given(st.data())
    def test_has_what_cron_names_in_the_course_of_years(self, data: st.DataObject) -> None:
        few = st.tuples(numbers(0, 59, star=False), HOURS.filter(lambda hour: "*" not in hour), DATES).map(
            " ".join
        )
        zone = data.draw(st.sampled_from(ZONES))
        schedule = cron(data.draw(few), zone, data.draw(st.sampled_from(("vixie", "skip", "both"))))
        after = data.draw(moments(zone))
        agrees(schedule, after, after + data.draw(st.integers(1, 500)) * DAY, [])

    @examples(100)
    @given(st.data())
    def test_keeps_to_the_bounds_of_the_schedule(self, data: st.DataObject) -> None:
        zone = data.draw(st.sampled_from(ZONES))
        starts_at = data.draw(moments(zone))
        ends_at = starts_at + data.draw(st.integers(1, 3 * 86_400)) * timedelta(seconds=1)
        schedule = cron("*/20 1-3 * * *", zone, data.draw(st.sampled_from(("vixie", "skip", "both"))))
        bounded = cron(schedule.cron, zone, schedule.dst_policy, starts_at=starts_at, ends_at=ends_at)
        agrees(bounded, starts_at - DAY, ends_at + DAY, [])

    @examples(200)
    @given(intervals(), st.integers(-(10**11), 10**11), st.integers(-(10**9), 3 * 10**11))
    def test_has_what_an_interval_names(self, schedule: Schedule, offset: int, length: int) -> None:
        after = START + offset * TICK
        agrees(schedule, after, after + length * TICK, [START])

    @pytest.mark.parametrize(
        "schedule",
        [
            Schedule(ScheduleType.ONCE, run_at=START),
            Schedule(ScheduleType.IMMEDIATE, anchor=START),
            Schedule(ScheduleType.IMMEDIATE, anchor=START - DAY, starts_at=START),
        ],
    )
    def test_has_the_single_instant_of_a_one_time_schedule(self, schedule: Schedule) -> None:
        for after, until in ((START - TICK, START), (START, LATEST), (START - DAY, START - TICK)):
            agrees(schedule, after, until, [START])

    def test_counts_a_century_of_seconds(self) -> None:
        every_second = timetable(cron("* * * * * ?", "UTC"), after=START, until=LATEST)
        assert len(every_second) == (LATEST - START) // timedelta(seconds=1)
        assert every_second.nth(10**9) == START + (10**9 + 1) * timedelta(seconds=1)
        steps = timetable(interval(timedelta(seconds=1), anchor=START), after=START, until=LATEST)
        assert len(steps) == len(every_second)

    def test_is_asked_with_any_offset(self) -> None:
        counted = timetable(cron("0 2 * * *", "UTC"), after=START, until=START + 9 * DAY)
        assert counted.rank((START + DAY).astimezone(ZoneInfo("Asia/Kolkata"))) == 1

    @pytest.mark.parametrize(
        "schedule",
        [
            cron("0 0 * * *", "Atlantis/Capital"),
            cron("0 0 30 2 *", "UTC"),
            cron("0 0 * * *", "UTC", "never"),
            interval(timedelta.max, anchor=START),
            interval(timedelta(0), anchor=START),
            Schedule(ScheduleType.CRON),
            Schedule(ScheduleType.ONCE),
            Schedule(ScheduleType.INTERVAL, every=timedelta(seconds=5)),
        ],
    )
    def test_of_what_can_no_longer_be_computed_raises_schedule_error(self, schedule: Schedule) -> None:
        with pytest.raises(ScheduleError):
            timetable(schedule, after=START, until=LATEST)

"""The forecast counts the firings of schedules, quarter by quarter and minute by minute, across changes of clocks."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.core.calendar.forecast import QUARTER, QUARTERS, Forecast
from jobs.core.instants import TICK
from jobs.core.schedule import Schedule, ScheduleType, fire_times
from tests.factories import utc

MINUTE = timedelta(minutes=1)
#: Half a day before clocks in Berlin leap, and before they are put back; seven minutes into a quarter.
MOMENTS = (utc(2030, 3, 30, 12, 7, 30), utc(2030, 10, 26, 12, 7, 30))
SCHEDULES = (
    {"cron_expression": "30 2 * * *"},
    {"cron_expression": "*/7 * * * *"},
    {"cron_expression": "0 0 * * *", "timezone": "Asia/Kolkata"},
    {"cron_expression": "* * * * * *", "cron_dialect": "quartz", "timezone": "UTC"},
    {"cron_expression": "0 3 * * 1-5", "jitter": timedelta(seconds=600)},
    {"schedule_type": "interval", "interval": timedelta(seconds=7)},
    {"schedule_type": "interval", "interval": timedelta(hours=5)},
    {"schedule_type": "once", "run_at": timedelta(hours=3)},
    {"schedule_type": "once", "run_at": timedelta(days=3)},
)


@dataclass
class Row:
    """The columns of a job that a forecast reads."""

    now: datetime
    tenant_id: int = 1
    schedule_type: str = "cron"
    cron_expression: str = ""
    timezone: str = "Europe/Berlin"
    cron_dialect: str = "unix"
    dst_policy: str = "vixie"
    interval: timedelta | None = None
    run_at: Any = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter: timedelta = timedelta()
    next_fire_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.run_at is not None:
            self.run_at += self.now
        self.created_at = self.now - timedelta(days=1, seconds=13)
        found = fire_times(schedule_of(self), after=self.now, until=self.now + timedelta(days=9), limit=1)
        self.next_fire_at = found[0] if found else None


def schedule_of(row: Row) -> Schedule:
    return Schedule(
        type=ScheduleType(row.schedule_type),
        cron=row.cron_expression or None,
        timezone=row.timezone,
        every=row.interval,
        run_at=row.run_at,
        anchor=row.created_at if row.schedule_type == "interval" else None,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        dst_policy=row.dst_policy,
        cron_dialect=row.cron_dialect,
    )


def walked(rows: list[Row], now: datetime, since: datetime) -> list[int]:
    """The same counts, instant by instant."""
    counts = [0] * QUARTERS
    for row in rows:
        until = since + QUARTERS * QUARTER - TICK
        for at in fire_times(schedule_of(row), after=now, until=until, limit=100_000):
            counts[(at - since) // QUARTER] += 1
    return counts


class TestForecast:
    @pytest.mark.parametrize("now", MOMENTS)
    def test_counts_what_schedules_fire(self, now: datetime) -> None:
        rows = [Row(now, **columns) for columns in SCHEDULES]
        forecast = Forecast(now=now, schedule_of=schedule_of)
        for row in rows:
            forecast.add(row)
        found = forecast.of(1)
        assert found.since == now.replace(minute=0, second=0)
        assert found.counts == walked(rows, now, found.since)
        assert found.jobs == len(rows)

    def test_names_the_fullest_minute_and_leaves_out_what_jitter_spreads(self) -> None:
        now = MOMENTS[0]
        forecast = Forecast(now=now, schedule_of=schedule_of)
        for number in range(50):
            forecast.add(Row(now, cron_expression="20 15 * * *", timezone="UTC", tenant_id=number % 2))
            forecast.add(
                Row(now, cron_expression="21 15 * * *", timezone="UTC", jitter=timedelta(seconds=90))
            )
        found = forecast.of(0, 1)
        quarter = (now.replace(hour=15, minute=15, second=0) - found.since) // QUARTER
        assert (found.counts[quarter], found.peaks[quarter], found.peak_minutes[quarter]) == (100, 50, 5)
        assert forecast.of(0).peaks[quarter] == 25

    def test_leaves_out_what_fires_no_more_and_what_cannot_be_computed(self) -> None:
        now = MOMENTS[0]
        forecast = Forecast(now=now, schedule_of=schedule_of)
        ended, broken = Row(now, cron_expression="* * * * *"), Row(now, cron_expression="* * * * *")
        ended.next_fire_at, broken.cron_expression = None, "61 * * * *"
        forecast.add(ended)
        forecast.add(broken)
        assert forecast.of(1).total == 0

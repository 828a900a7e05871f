"""Fire times: hard dates told one by one, and the rules of each type."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from jobs.core.errors import ScheduleError
from jobs.core.instants import EARLIEST, LATEST
from jobs.core.schedule import Schedule, ScheduleType, fire_times, next_fire

TICK = timedelta(microseconds=1)


def at(text):
    """``2026-03-08 07:00`` as an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression, zone="UTC", **options):
    return Schedule(ScheduleType.CRON, cron=expression, timezone=zone, **options)


def shown(instants):
    return [instant.strftime("%m-%d %H:%M") for instant in instants]


#: A stretch of time that holds one change of clocks (zone, from, until in UTC), and for schedules in it the
#: expression, the DST policy and the firings in UTC, as day and time.
HARD_DATES = {
    # New York, 2026-03-08: 02:00 EST -> 03:00 EDT at 07:00Z.
    ("America/New_York", "2026-03-07 12:00", "2026-03-09 12:00"): [
        ("30 2 * * *", "vixie", "08T07:00 09T06:30"),
        ("30 2 * * *", "skip", "09T06:30"),
    ],
    ("America/New_York", "2026-03-07 12:00", "2026-03-08 12:00"): [
        ("30 2 * * *", "both", "08T07:00"),
    ],
    ("America/New_York", "2026-03-08 00:00", "2026-03-08 12:00"): [
        ("15,45 2 * * *", "vixie", "08T07:00"),
        ("0 2,3 * * *", "vixie", "08T07:00"),
        ("0 2,3 * * *", "skip", "08T07:00"),
        ("0 3 * * *", "vixie", "08T07:00"),
    ],
    ("America/New_York", "2026-03-08 05:00", "2026-03-08 08:00"): [
        ("30 * * * *", "vixie", "08T05:30 08T06:30 08T07:30"),
    ],
    ("America/New_York", "2026-03-08 00:00", "2026-03-09 06:00"): [
        ("*/30 2 * * *", "vixie", "09T06:00"),
    ],
    # New York, 2026-11-01: 02:00 EDT -> 01:00 EST at 06:00Z.
    ("America/New_York", "2026-11-01 00:00", "2026-11-02 12:00"): [
        ("30 1 * * *", "vixie", "01T05:30 02T06:30"),
    ],
    ("America/New_York", "2026-11-01 00:00", "2026-11-01 12:00"): [
        ("30 1 * * *", "skip", "01T05:30"),
        ("30 1 * * *", "both", "01T05:30 01T06:30"),
        ("0 1-2 * * *", "vixie", "01T05:00 01T07:00"),
        ("0 1-2 * * *", "both", "01T05:00 01T06:00 01T07:00"),
        ("*/20 1 * * *", "vixie", "01T05:00 01T05:20 01T05:40 01T06:00 01T06:20 01T06:40"),
    ],
    ("America/New_York", "2026-11-01 04:00", "2026-11-01 08:00"): [
        ("15 * * * *", "skip", "01T04:15 01T05:15 01T06:15 01T07:15"),
    ],
    # The same overlap, asked from within its first and its second pass.
    ("America/New_York", "2026-11-01 05:40", "2026-11-01 12:00"): [
        ("30 1 * * *", "vixie", ""),
        ("30 1 * * *", "both", "01T06:30"),
    ],
    ("America/New_York", "2026-11-01 06:10", "2026-11-01 12:00"): [
        ("30 1 * * *", "both", "01T06:30"),
    ],
    ("America/New_York", "2026-11-01 06:30", "2026-11-01 12:00"): [
        ("30 1 * * *", "both", ""),
    ],
    ("America/New_York", "2026-11-01 05:50", "2026-11-01 12:00"): [
        ("*/20 1 * * *", "vixie", "01T06:00 01T06:20 01T06:40"),
    ],
    # Berlin, 2026-03-29 02:00 -> 03:00 at 01:00Z; 2026-10-25 03:00 -> 02:00 at 01:00Z.
    ("Europe/Berlin", "2026-03-28 12:00", "2026-03-30 12:00"): [
        ("30 2 * * *", "vixie", "29T01:00 30T00:30"),
    ],
    ("Europe/Berlin", "2026-10-24 12:00", "2026-10-26 12:00"): [
        ("30 2 * * *", "vixie", "25T00:30 26T01:30"),
    ],
    ("Europe/Berlin", "2026-03-01 00:00", "2026-12-31 00:00"): [
        ("30 2 29 3 *", "skip", ""),
    ],
    # Lord Howe moves by half an hour: 2026-10-04 02:00 -> 02:30 at 15:30Z the day before;
    # 2026-04-05 02:00 -> 01:30 at 15:00Z the day before.
    ("Australia/Lord_Howe", "2026-10-03 00:00", "2026-10-05 00:00"): [
        ("15 2 * * *", "vixie", "03T15:30 04T15:15"),
    ],
    ("Australia/Lord_Howe", "2026-10-03 00:00", "2026-10-04 00:00"): [
        ("45 2 * * *", "vixie", "03T15:45"),
        ("0,30 2 * * *", "vixie", "03T15:30"),
    ],
    ("Australia/Lord_Howe", "2026-04-04 00:00", "2026-04-05 00:00"): [
        ("45 1 * * *", "vixie", "04T14:45"),
        ("45 1 * * *", "both", "04T14:45 04T15:15"),
    ],
    ("Australia/Lord_Howe", "2026-04-04 14:00", "2026-04-05 00:00"): [
        ("*/15 1 * * *", "vixie", "04T14:15 04T14:30 04T14:45 04T15:00 04T15:15"),
    ],
    ("Australia/Lord_Howe", "2026-04-04 14:00", "2026-04-04 17:00"): [
        ("45 * * * *", "vixie", "04T14:45 04T15:15 04T16:15"),
    ],
    # Midnight does not exist: Sao Paulo 2018-11-04 (03:00Z), Cairo 2026-04-24 and Beirut 2026-03-29 (both
    # 22:00Z the day before).
    ("America/Sao_Paulo", "2018-11-03 12:00", "2018-11-05 12:00"): [
        ("@daily", "vixie", "04T03:00 05T02:00"),
        ("0 0 * * *", "skip", "05T02:00"),
    ],
    ("America/Sao_Paulo", "2018-02-17 12:00", "2018-02-18 12:00"): [
        ("30 23 * * *", "vixie", "18T01:30"),
        ("30 23 * * *", "both", "18T01:30 18T02:30"),
    ],
    ("Africa/Cairo", "2026-04-23 12:00", "2026-04-25 12:00"): [
        ("0 0 * * *", "vixie", "23T22:00 24T21:00"),
    ],
    ("Asia/Beirut", "2026-03-28 12:00", "2026-03-30 12:00"): [
        ("0 0 * * *", "vixie", "28T22:00 29T21:00"),
    ],
    # Apia crossed the date line: 2011-12-30 does not exist, its firings fall on the instant the gap
    # ends.
    ("Pacific/Apia", "2011-12-29 12:00", "2012-01-01 00:00"): [
        ("0 9 * * *", "vixie", "29T19:00 30T10:00 30T19:00 31T19:00"),
    ],
    # No change of clocks at all.
    ("Asia/Kolkata", "2026-03-08 00:00", "2026-03-10 00:00"): [
        ("0 2 * * *", "vixie", "08T20:30 09T20:30"),
    ],
}


class TestCronFireTimes:
    @pytest.mark.parametrize(
        ("stretch", "expression", "policy", "expected"),
        [(stretch, *row) for stretch, rows in HARD_DATES.items() for row in rows],
    )
    def test_follow_the_table_where_clocks_change(self, stretch, expression, policy, expected):
        zone, after, until = stretch
        schedule = cron(expression, zone, dst_policy=policy)
        fires = fire_times(schedule, after=at(after), until=at(until), limit=100)
        assert " ".join(firing.strftime("%dT%H:%M") for firing in fires) == expected

    def test_are_the_same_for_an_instant_written_with_another_offset(self):
        schedule = cron("30 1 * * *", "America/New_York", dst_policy="both")
        tokyo = timezone(timedelta(hours=9))
        after, until = at("2026-11-01 05:40"), at("2026-11-02 00:00")
        assert fire_times(schedule, after=after.astimezone(tokyo), until=until, limit=9) == fire_times(
            schedule, after=after, until=until, limit=9
        )

    def test_stop_at_the_limit_and_include_until_but_not_after(self):
        schedule = cron("0 * * * *")
        day = at("2026-01-01 00:00")
        assert len(fire_times(schedule, after=day, until=LATEST, limit=3)) == 3
        hour = timedelta(hours=1)
        assert fire_times(schedule, after=day, until=day + hour, limit=3) == [day + hour]
        assert fire_times(schedule, after=day, until=day, limit=3) == []

    def test_never_leave_the_years_the_tables_hold(self):
        schedule = cron("0 0 1 1 *")
        assert next_fire(schedule, after=datetime.min.replace(tzinfo=UTC)) == EARLIEST
        assert next_fire(schedule, after=at("2099-06-01 00:00")) == LATEST
        assert next_fire(schedule, after=LATEST) is None
        west, east = timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))
        assert next_fire(schedule, after=datetime.max.replace(tzinfo=west)) is None
        assert fire_times(schedule, after=EARLIEST, until=datetime.min.replace(tzinfo=east), limit=1) == []

    @pytest.mark.parametrize(
        "schedule",
        [
            cron("0 0 * * *", "Atlantis/Capital"),
            cron("0 0 * * *", "../etc/passwd"),
            cron("0 0 30 2 *"),
            cron("0 0 * * *", dst_policy="never"),
            Schedule(ScheduleType.INTERVAL, every=timedelta.max, anchor=EARLIEST),
            Schedule(ScheduleType.CRON),
            Schedule(ScheduleType.ONCE),
            Schedule(ScheduleType.INTERVAL, every=timedelta(seconds=5)),
            Schedule(ScheduleType.INTERVAL, every=timedelta(0), anchor=EARLIEST),
        ],
    )
    def test_of_what_can_no_longer_be_computed_raise_schedule_error(self, schedule):
        with pytest.raises(ScheduleError):
            next_fire(schedule, after=EARLIEST)


class TestIntervalFireTimes:
    def test_begin_one_interval_after_creation(self):
        schedule = Schedule(ScheduleType.INTERVAL, every=timedelta(minutes=1), anchor=at("2026-01-01 00:00"))
        fires = fire_times(schedule, after=at("2020-01-01 00:00"), until=LATEST, limit=2)
        assert shown(fires) == ["01-01 00:01", "01-01 00:02"]

    def test_begin_at_starts_at_when_it_is_given(self):
        start = at("2026-01-01 12:00")
        schedule = Schedule(
            ScheduleType.INTERVAL, every=timedelta(minutes=1), anchor=at("2026-01-01 00:00"), starts_at=start
        )
        assert shown(fire_times(schedule, after=EARLIEST, until=LATEST, limit=2)) == [
            "01-01 12:00",
            "01-01 12:01",
        ]

    def test_do_not_drift_over_a_century(self):
        anchor = at("2000-01-01 00:00") + TICK
        schedule = Schedule(ScheduleType.INTERVAL, every=timedelta(seconds=1, microseconds=3), anchor=anchor)
        for firing in fire_times(schedule, after=at("2099-12-31 00:00"), until=LATEST, limit=5):
            assert (firing - anchor) % schedule.every == timedelta(0)

    def test_include_ends_at(self):
        start = at("2026-01-01 00:00")
        schedule = Schedule(
            ScheduleType.INTERVAL,
            every=timedelta(hours=1),
            starts_at=start,
            ends_at=start + timedelta(hours=1),
        )
        assert shown(fire_times(schedule, after=EARLIEST, until=LATEST, limit=9)) == [
            "01-01 00:00",
            "01-01 01:00",
        ]


class TestSingleFireTimes:
    def test_of_once_is_run_at(self):
        run_at = at("2026-01-01 00:00")
        schedule = Schedule(ScheduleType.ONCE, run_at=run_at.astimezone(ZoneInfo("Asia/Kolkata")))
        assert fire_times(schedule, after=run_at - TICK, until=LATEST, limit=9) == [run_at]
        assert next_fire(schedule, after=run_at) is None

    def test_of_immediate_is_the_anchor(self):
        anchor = at("2026-01-01 00:00")
        schedule = Schedule(ScheduleType.IMMEDIATE, anchor=anchor)
        assert next_fire(schedule, after=anchor - TICK) == anchor
        assert next_fire(schedule, after=anchor) is None

    def test_of_immediate_waits_for_starts_at(self):
        anchor = at("2026-01-01 00:00")
        later = anchor + timedelta(days=1)
        schedule = Schedule(ScheduleType.IMMEDIATE, anchor=anchor, starts_at=later)
        assert fire_times(schedule, after=anchor - TICK, until=LATEST, limit=9) == [later]

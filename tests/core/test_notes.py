"""Notes for people about changes of clocks, and schedules in words."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.core.calendar.notes import explained_fire_times
from jobs.core.calendar.notices import next_clock_change_notice
from jobs.core.calendar.words import describe
from jobs.core.errors import ScheduleError
from jobs.core.schedule import Schedule, ScheduleType

NEW_YORK, LORD_HOWE = "America/New_York", "Australia/Lord_Howe"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cron(expression: str, zone: str = "UTC", **options: object) -> Schedule:
    dialect = "quartz" if len(expression.split()) == 6 else "unix"
    return Schedule(ScheduleType.CRON, cron=expression, timezone=zone, cron_dialect=dialect, **options)


#: Schedule, start in UTC, and for each firing from there its wall-clock time and its note.
NOTES = [
    (
        cron("30 2 * * *", NEW_YORK),
        "2026-03-08T00:00",
        [("08T02:30", "02:30 does not exist on 2026-03-08; fires at 03:00"), ("09T02:30", None)],
    ),
    (
        cron("30 2 * * *", NEW_YORK, dst_policy="skip"),
        "2026-03-07T00:00",
        [
            ("07T02:30", None),
            ("09T02:30", "Before this, 02:30 does not exist on 2026-03-08; it does not fire"),
        ],
    ),
    (
        cron("15,45 2 * * *", NEW_YORK),
        "2026-03-08T00:00",
        [
            (
                "08T02:15",
                "02:15 and later times before 03:00 do not exist on 2026-03-08; fires once, at 03:00",
            ),
            ("09T02:15", None),
        ],
    ),
    (
        cron("0 2,3 * * *", NEW_YORK),
        "2026-03-08T00:00",
        [("08T02:00", "02:00 does not exist on 2026-03-08; fires at 03:00"), ("09T02:00", None)],
    ),
    (
        cron("0 * * * *", NEW_YORK),
        "2026-03-08T06:30",
        [
            ("08T03:00", "Before this, 02:00 does not exist on 2026-03-08; it does not fire"),
            ("08T04:00", None),
        ],
    ),
    (
        cron("30 1 * * *", NEW_YORK),
        "2026-11-01T00:00",
        [("01T01:30", "01:30 happens twice; fires at the first"), ("02T01:30", None)],
    ),
    (
        cron("30 1 * * *", NEW_YORK, dst_policy="both"),
        "2026-11-01T00:00",
        [
            ("01T01:30", "01:30 happens twice; first pass"),
            ("01T01:30", "01:30 happens twice; second pass"),
            ("02T01:30", None),
        ],
    ),
    (
        cron("30 * 1 * * ?", NEW_YORK),
        "2026-11-01T05:59",
        [
            ("01T01:59", "01:59:30 happens twice; first pass"),
            ("01T01:00", "01:00:30 happens twice; second pass"),
        ],
    ),
    (
        cron("0 9 * * *", "Pacific/Apia"),
        "2011-12-30T00:00",
        [("30T09:00", "09:00 does not exist on 2011-12-30; fires at 2011-12-31 00:00"), ("31T09:00", None)],
    ),
]


class TestExplainedFireTimes:
    @pytest.mark.parametrize(("schedule", "after", "expected"), NOTES)
    def test_tell_the_wall_time_and_what_became_of_it(
        self, schedule: Schedule, after: str, expected: list[tuple[str, str | None]]
    ) -> None:
        until = at(after) + timedelta(days=30)
        told = explained_fire_times(schedule, after=at(after), until=until, limit=len(expected))
        assert [(firing.wall.strftime("%dT%H:%M"), firing.note) for firing in told] == expected

    def test_show_the_instant_in_the_zone(self) -> None:
        (firing,) = explained_fire_times(
            cron("0 2 * * *", "Asia/Kolkata"), after=at("2026-01-01"), until=at("2026-01-02"), limit=9
        )
        assert firing.local.isoformat() == "2026-01-02T02:00:00+05:30"
        assert firing.at == at("2026-01-01T20:30")

    def test_of_an_interval_have_nothing_to_explain(self) -> None:
        schedule = Schedule(ScheduleType.INTERVAL, every=timedelta(hours=1), anchor=at("2026-01-01"))
        told = explained_fire_times(schedule, after=at("2026-01-01"), until=at("2026-01-02"), limit=2)
        assert [(firing.at, firing.note) for firing in told] == [
            (at("2026-01-01T01:00"), None),
            (at("2026-01-01T02:00"), None),
        ]

    def test_keep_to_the_schedule_s_bounds(self) -> None:
        schedule = cron("0 * * * *", starts_at=at("2026-01-01T03:00"), ends_at=at("2026-01-01T04:00"))
        told = explained_fire_times(schedule, after=at("2026-01-01"), until=at("2026-01-02"), limit=9)
        assert [firing.at.hour for firing in told] == [3, 4]
        late = at("2026-01-01T04:00")
        assert explained_fire_times(schedule, after=late, until=at("2026-01-02"), limit=9) == []


#: Schedule, now, and the notice: its instant and its words; None when there is none.
NOTICES = [
    (
        cron("30 2 * * *", NEW_YORK),
        "2026-02-07T00:00",
        "2026-03-08T07:00 02:30 does not exist on 2026-03-08; fires at 03:00",
    ),
    (cron("30 2 * * *", NEW_YORK), "2026-02-06T00:00", None),
    (cron("30 2 * * *", NEW_YORK), "2026-03-08T07:00", None),
    (cron("30 4 * * *", NEW_YORK), "2026-03-01T00:00", None),
    (cron("30 2 * * MON", NEW_YORK), "2026-03-01T00:00", None),
    (
        cron("30 2 * * *", NEW_YORK, dst_policy="skip"),
        "2026-03-01T00:00",
        "2026-03-08T07:00 02:30 does not exist on 2026-03-08; it does not fire",
    ),
    (
        cron("*/20 2 * * *", NEW_YORK),
        "2026-03-01T00:00",
        "2026-03-08T07:00 02:00 and later times before 03:00 do not exist on 2026-03-08; they do not fire",
    ),
    (
        cron("30 1 * * *", NEW_YORK),
        "2026-10-10T00:00",
        "2026-11-01T05:30 01:30 happens twice; fires at the first",
    ),
    (cron("30 1 * * *", NEW_YORK), "2026-11-01T05:45", None),
    (
        cron("30 1 * * *", NEW_YORK, dst_policy="both"),
        "2026-11-01T05:45",
        "2026-11-01T06:30 01:30 happens twice; second pass",
    ),
    (cron("30 1 * * *", NEW_YORK, dst_policy="both"), "2026-11-01T06:30", None),
    (cron("*/20 1 * * *", NEW_YORK), "2026-10-10T00:00", "2026-11-01T05:00 01:00 happens twice; first pass"),
    # An hourly or minutely rhythm goes on, unless clocks move by less than it takes.
    (cron("0 * * * *", NEW_YORK), "2026-03-01T00:00", None),
    (cron("* * * * *", NEW_YORK), "2026-10-20T00:00", None),
    (cron("*/10 * * * * ?", NEW_YORK), "2026-10-20T00:00", None),
    (
        cron("0 * * * *", LORD_HOWE),
        "2026-10-01T00:00",
        "2026-10-03T15:30 02:00 does not exist on 2026-10-04; it does not fire",
    ),
    (cron("*/30 * * * *", LORD_HOWE), "2026-10-01T00:00", None),
    # Bounds, and zones and types without changes.
    (cron("30 2 * * *", NEW_YORK, ends_at=at("2026-03-08T06:00")), "2026-03-01T00:00", None),
    (cron("30 2 * * *", NEW_YORK, starts_at=at("2026-03-08T08:00")), "2026-03-01T00:00", None),
    (cron("30 2 * * *", "Asia/Kolkata"), "2026-03-01T00:00", None),
    (cron("30 2 * * *"), "2026-03-01T00:00", None),
    (
        Schedule(ScheduleType.INTERVAL, every=timedelta(hours=1), anchor=at("2026-01-01")),
        "2026-03-01T00:00",
        None,
    ),
]


class TestNextClockChangeNotice:
    @pytest.mark.parametrize(("schedule", "now", "expected"), NOTICES)
    def test_is_of_the_next_firing_a_change_affects(
        self, schedule: Schedule, now: str, expected: str | None
    ) -> None:
        notice = next_clock_change_notice(schedule, now=at(now))
        assert (notice and f"{notice.at:%Y-%m-%dT%H:%M} {notice.note}") == expected

    def test_shows_the_local_time(self) -> None:
        notice = next_clock_change_notice(cron("0 0 * * *", "Africa/Cairo"), now=at("2026-04-20"))
        assert notice is not None
        assert notice.local.isoformat() == "2026-04-24T01:00:00+03:00"

    def test_of_what_can_no_longer_be_computed_raises_schedule_error(self) -> None:
        with pytest.raises(ScheduleError):
            next_clock_change_notice(cron("0 0 * * *", "Atlantis/Capital"), now=at("2026-01-01"))
        with pytest.raises(ScheduleError):
            next_clock_change_notice(cron("0 0 30 2 *", NEW_YORK), now=at("2026-03-01"))


WORDS = [
    (cron("0 2 * * *"), "At 02:00, in UTC"),
    (cron("30 2 * * MON-FRI", "Europe/Berlin"), "At 02:30, Monday through Friday, in Europe/Berlin"),
    (cron("* * * * *"), "Every minute, in UTC"),
    (cron("@hourly"), "Every hour, in UTC"),
    (cron("0-59/15 0-23 * * *"), "Every 15 minutes, in UTC"),
    (cron("*/20 1 * * *"), "Every 20 minutes, between 01:00 and 01:59, in UTC"),
    # Not every 25 minutes: the hour begins again.
    (cron("*/25 * * * *"), "At 0, 25 and 50 minutes past the hour, in UTC"),
    (cron("0 0 */10 * *"), "At 00:00, on day 1, 11, 21 and 31 of the month, in UTC"),
    (cron("0 0 13 * 5"), "At 00:00, on day 13 of the month and every Friday, in UTC"),
    (
        cron("0 0 9 15W * ?"),
        "At 09:00, on the weekday (Monday to Friday) nearest day 15 of the month, in UTC",
    ),
    (cron("0 0 9 LW * ?"), "At 09:00, on the last weekday (Monday to Friday) of the month, in UTC"),
    (cron("0 0 9 L-1 * ?"), "At 09:00, on 1 day before the last day of the month, in UTC"),
    (
        cron("0 0 9 1,L-3,L-2W 6 ?"),
        "At 09:00, only in June, on day 1 of the month, 3 days before the last day of the month and the weekday "
        "(Monday to Friday) nearest 2 days before the last day of the month, in UTC",
    ),
    (cron("0 0 L * *"), "At 00:00, on the last day of the month, in UTC"),
    (cron("0 0 15,L * *"), "At 00:00, on day 15 of the month and the last day of the month, in UTC"),
    (cron("0 0 * * L5"), "At 00:00, on the last Friday of the month, in UTC"),
    (cron("0 0 * * 1#1,1#3"), "At 00:00, on the first Monday and third Monday of the month, in UTC"),
    (cron("0 0 12 ? * 6L"), "At 12:00, on the last Friday of the month, in UTC"),
    (cron("15 30 2 ? * 2"), "At 02:30:15, only on Monday, in UTC"),
    (cron("*/10 * * * * ?"), "Every 10 seconds, in UTC"),
    (cron("0 0/15 9-17 * * ?"), "Every 15 minutes, between 09:00 and 17:59, in UTC"),
    (Schedule(ScheduleType.INTERVAL, every=timedelta(seconds=90)), "Every 90 seconds"),
    (Schedule(ScheduleType.INTERVAL, every=timedelta(hours=1)), "Every hour"),
    (Schedule(ScheduleType.INTERVAL, every=timedelta(days=2)), "Every 2 days"),
    (Schedule(ScheduleType.INTERVAL, every=timedelta(seconds=1.5)), "Every 1.5 seconds"),
    (
        Schedule(
            ScheduleType.INTERVAL,
            every=timedelta(minutes=5),
            starts_at=at("2026-01-01"),
            ends_at=at("2026-02-01"),
        ),
        "Every 5 minutes, from 2026-01-01 00:00:00 UTC, until 2026-02-01 00:00:00 UTC",
    ),
    (Schedule(ScheduleType.ONCE, run_at=at("2026-01-31T02:00")), "Once, at 2026-01-31 02:00:00 UTC"),
    (Schedule(ScheduleType.IMMEDIATE), "Once, as soon as it is created"),
]


class TestDescribe:
    @pytest.mark.parametrize(("schedule", "words"), WORDS)
    def test_says_what_fires(self, schedule: Schedule, words: str) -> None:
        assert describe(schedule).replace(", and ", " and ") == words

    def test_of_what_can_no_longer_be_computed_raises_schedule_error(self) -> None:
        with pytest.raises(ScheduleError):
            describe(cron("never"))

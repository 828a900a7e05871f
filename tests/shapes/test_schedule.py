"""Schedules: the JSON that is accepted, and the schedule that it becomes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.core.errors import InvalidInput
from jobs.core.schedule import ScheduleType
from jobs.models import Job
from jobs.shapes import schedule as shapes
from jobs.shapes.schedule import ScheduleShape

CRON = {"type": "cron", "cron": "0 0 * * *"}
ONCE = {"type": "once", "run_at": "2026-01-01T12:00:00Z"}
EVERY = {"type": "interval", "every_seconds": 60}
NOON, A_TICK_LATER, BEFORE = (
    "2026-01-01T12:00:00Z",
    "2026-01-01T12:00:00.000001Z",
    "2026-01-01T11:59:59.999999Z",
)
#: The document, and the fields that its refusal names.
REFUSED: list[tuple[Any, set[str]]] = [
    ({"type": "cron"}, {"cron"}),
    ({"type": "interval"}, {"every_seconds"}),
    ({"type": "once"}, {"run_at"}),
    ({}, {"type"}),
    ({"type": None}, {"type"}),
    ({"type": "lunar"}, {"type"}),
    ({"type": ["cron"]}, {"type"}),
    ("0 0 * * *", {""}),
    (None, {""}),
    (CRON | {"run_at": NOON}, {"run_at"}),
    (ONCE | {"cron": "0 0 * * *", "every_seconds": 1}, {"cron", "every_seconds"}),
    ({"type": "immediate", "run_at": NOON}, {"run_at"}),
    (
        CRON | {"cron": "0 0 * *", "timezone": "localtime", "dst_policy": "never"},
        {"cron", "timezone", "dst_policy"},
    ),
    (CRON | {"cron_dialect": "quartz"}, {"cron"}),
    (CRON | {"cron_dialect": "spring", "cron": "x"}, {"cron_dialect"}),
    (EVERY | {"every_seconds": 0.5}, {"every_seconds"}),
    (EVERY | {"every_seconds": 367 * 86_400}, {"every_seconds"}),
    (EVERY | {"every_seconds": 1e300}, {"every_seconds"}),
    (EVERY | {"jitter_seconds": 60}, {"jitter_seconds"}),
    (ONCE | {"run_at": "2026-01-01T00:00:00"}, {"run_at"}),
    (ONCE | {"run_at": "9999-12-31T23:59:59-12:00"}, {"run_at"}),
    (ONCE | {"run_at": "0001-01-01T00:00:00+14:00"}, {"run_at"}),
    (ONCE | {"starts_at": A_TICK_LATER}, {"run_at"}),
    (ONCE | {"ends_at": BEFORE}, {"run_at"}),
    (
        CRON | {"starts_at": "1999-12-31T23:59:59Z", "ends_at": "2100-01-01T00:00:01Z"},
        {"starts_at", "ends_at"},
    ),
    (CRON | {"starts_at": NOON, "ends_at": NOON}, {"ends_at"}),
    (CRON | {"starts_at": NOON, "ends_at": "2026-01-01T13:00:00Z"}, {"ends_at"}),
    (EVERY | {"bogus": 1}, {"bogus"}),
]


def read(document: Any) -> Any:
    return ScheduleShape.read(document)


class TestSchedule:
    @pytest.mark.parametrize(("document", "fields"), REFUSED)
    def test_names_every_field_that_is_wrong(self, document: Any, fields: set[str]) -> None:
        with pytest.raises(InvalidInput) as refusal:
            read(document)
        assert set(refusal.value.errors) == fields

    @pytest.mark.parametrize(
        "document",
        [
            CRON
            | {
                "cron": " @daily ",
                "timezone": "Etc/UTC",
                "starts_at": NOON,
                "ends_at": "2026-01-02T12:00:00Z",
            },
            EVERY | {"every_seconds": 1},
            EVERY | {"every_seconds": 366 * 86_400, "starts_at": None, "cron": None},
            ONCE | {"starts_at": NOON, "ends_at": A_TICK_LATER},
            {"type": "immediate", "starts_at": NOON},
        ],
    )
    def test_accepts_what_can_fire_and_shows_it_as_it_would_be_written(
        self, document: dict[str, Any]
    ) -> None:
        schedule = read(document)
        shown = shapes.shown(Job(**schedule.columns()))
        assert read(shown) == schedule
        assert (
            shown.items()
            >= {name: document[name] for name in ("type", "every_seconds") if name in document}.items()
        )

    def test_is_kept_in_its_normal_spelling(self) -> None:
        given = CRON | {
            "cron": "0 2 * * mon",
            "timezone": "Asia/Calcutta",
            "starts_at": "2030-01-01T02:00:00+02:00",
        }
        kept = read(given).at(datetime(2026, 1, 1, tzinfo=UTC))
        assert (kept.type, kept.cron, kept.timezone) == (ScheduleType.CRON, "0 2 * * MON", "Asia/Kolkata")
        assert (kept.starts_at, kept.starts_at.tzinfo) == (datetime(2030, 1, 1, tzinfo=UTC), UTC)

    def test_is_what_the_engine_computes_with(self) -> None:
        created = datetime(2026, 1, 1, tzinfo=UTC)
        schedule = read(EVERY | {"every_seconds": 2.5, "jitter_seconds": 1})
        assert (schedule.at(created).every, schedule.at(created).anchor) == (timedelta(seconds=2.5), created)
        assert schedule.columns()["jitter"] == timedelta(seconds=1)

    @pytest.mark.parametrize(
        ("document", "field", "right"),
        [
            ({}, "type", "Is required: one of cron, interval, once, immediate."),
            ({"type": "lunar"}, "type", "Must be one of cron, interval, once, immediate."),
            ({"type": "once"}, "run_at", "A schedule of type once needs it."),
            (5, "", 'Must be an object such as {"type": "cron", "cron": "0 2 * * *"}.'),
            (
                EVERY | {"timezone": "UTC"},
                "timezone",
                "Does not belong to a schedule of type interval; leave it out or change the type.",
            ),
        ],
    )
    def test_says_what_would_be_right(self, document: Any, field: str, right: str) -> None:
        with pytest.raises(InvalidInput) as refusal:
            read(document)
        assert refusal.value.errors == {field: [right]}

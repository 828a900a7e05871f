"""How times and durations are shown."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.admin.shared.cells import distance_text, duration_cell, instant_cell, instant_text, moment_cell

AT = datetime(2030, 1, 31, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45, "in 45 s"),
        (-185, "3 min ago"),
        (-7_800, "2 h 10 min ago"),
        (90_000, "in 1 d 1 h"),
        (0.4, "now"),
        (60, "in 1 min"),
    ],
)
def test_a_distance_is_told_as_people_say_it(seconds: float, text: str) -> None:
    assert distance_text(AT + timedelta(seconds=seconds), now=AT) == text


def test_a_moment_tells_the_instant_itself_when_pointed_at() -> None:
    assert moment_cell(AT, now=AT - timedelta(seconds=45)) == (
        '<time datetime="2030-01-31T02:00:00Z" title="2030-01-31 02:00:00.000 UTC" class="whitespace-nowrap">'
        "in 45 s</time>"
    )
    assert moment_cell(None, now=AT) == instant_cell(None) == "-"


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Asia/Kolkata", "2030-01-31 07:30:00.000 +05:30"),
        ("America/Chicago", "2030-01-30 20:00:00.000 -06:00"),
        ("Europe/London", "2030-01-31 02:00:00.000 +00:00"),
    ],
)
def test_a_zone_is_told_by_its_offset(zone: str, text: str) -> None:
    assert instant_text(AT, zone=ZoneInfo(zone)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (1.5, "1.5 s"), (60, "1 min"), (3_725, "1 h 2 min"), (-90, "-1 min 30 s")],
)
def test_a_duration_is_told_in_words(seconds: float, text: str) -> None:
    assert duration_cell(timedelta(seconds=seconds)) == text

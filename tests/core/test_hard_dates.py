"""The table of hard dates: every rule of DESIGN §9 in both hemispheres, spring and autumn, and where rules changed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.core.schedule import Schedule, ScheduleType, fire_times

ROWS = [
    tuple(cell.strip() for cell in line.split("|"))
    for line in (Path(__file__).parent / "hard_dates.txt").read_text().splitlines()
    if not line.startswith("#")
]
A_WEEK = timedelta(days=7)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(firing: datetime) -> str:
    return firing.strftime("%dT%H:%M:%S").removesuffix(":00")


class TestHardDates:
    @pytest.mark.parametrize("row", ROWS, ids=" ".join)
    def test_fire_as_the_table_says(self, row: tuple[str, ...]) -> None:
        zone, after, until, expression, policy, expected = row
        schedule = Schedule(
            ScheduleType.CRON,
            cron=expression,
            cron_dialect="quartz" if len(expression.split()) == 6 else "unix",
            timezone=zone,
            dst_policy=policy,
        )
        fires = fire_times(schedule, after=instant(after), until=instant(until), limit=100)
        wanted = (
            []
            if expected == "-"
            else [text.removesuffix(":00") if len(text) == 11 else text for text in expected.split()]
        )
        assert [shown(firing) for firing in fires] == wanted

    def test_are_many(self) -> None:
        assert len(ROWS) >= 150
        assert len({row[0] for row in ROWS}) >= 30
        assert {row[4] for row in ROWS} == {"vixie", "skip", "both"}

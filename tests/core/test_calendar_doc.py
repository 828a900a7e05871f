"""The tables of docs/calendar.md, run: ours, croniter's and cronsim's firings are what the page says."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from croniter import CroniterError, croniter
from cronsim import CronSim, CronSimError

from jobs.core.cron import parse_cron
from jobs.core.errors import InvalidInput
from jobs.core.instants import LATEST
from jobs.core.schedule import Schedule, ScheduleType, each_fire_time
from jobs.core.timezones import load_zone

PAGE = (Path(__file__).parents[2] / "docs" / "calendar.md").read_text()
POLICY_ROWS, DIFFERENCES, QUARTZ = (
    re.findall(pattern, PAGE, re.MULTILINE)
    for pattern in (
        r"^\| `(.+?)` \| ([\w/]+), (\S+) \| `(\w+)` \| ([-\d T:]+) \|$",
        r"^\| `(.+?)` \| ([\w/]+), (\S+) \| ([-\w T:]+) \| ([-\w T:]+) \| ([-\w T:]+) \| .+ \|$",
        r"^\| `(\S+ \S+ \S+ \S+ \S+ \S+(?: \d+)?)` \| (refused|[\dT: ]+) \| [^|]+ \|[^|]*\|$",
    )
)


def ours(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    parse_cron(schedule.cron or "", schedule.cron_dialect)
    return each_fire_time(schedule, after=after, until=LATEST)


def croniters(expression: str, local: datetime) -> Iterator[datetime]:
    walk = croniter(expression, local)
    while True:
        yield walk.get_next(datetime)


def told(make: Callable[[], Iterator[datetime]], page: str, form: str = "%m-%dT%H:%M") -> str:
    """As many firings as the ``page`` has, in its form."""
    try:
        firings = list(islice(make(), len(page.split())))
    except InvalidInput:
        return "refused"
    except (CroniterError, CronSimError):
        return "error"
    return " ".join(firing.astimezone(UTC).strftime(form) for firing in firings)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class TestThePage:
    def test_has_tables_that_are_found(self) -> None:
        assert (len(POLICY_ROWS), len(DIFFERENCES), len(QUARTZ)) == (12, 33, 16)

    @pytest.mark.parametrize(("expression", "zone", "after", "policy", "firings"), POLICY_ROWS)
    def test_is_right_about_changes_of_clocks(
        self, expression: str, zone: str, after: str, policy: str, firings: str
    ) -> None:
        schedule = Schedule(ScheduleType.CRON, cron=expression, timezone=zone, dst_policy=policy)
        assert told(lambda: ours(schedule, moment(after)), firings) == firings

    @pytest.mark.parametrize(
        ("expression", "zone", "after", "carillon", "by_croniter", "by_cronsim"), DIFFERENCES
    )
    def test_is_right_about_where_others_differ(
        self, expression: str, zone: str, after: str, carillon: str, by_croniter: str, by_cronsim: str
    ) -> None:
        schedule = Schedule(ScheduleType.CRON, cron=expression, timezone=zone)
        local = moment(after).astimezone(load_zone(zone))
        assert told(lambda: ours(schedule, moment(after)), carillon) == carillon
        assert told(lambda: croniters(expression, local), by_croniter) == by_croniter
        assert told(lambda: CronSim(expression, local), by_cronsim) == by_cronsim

    @pytest.mark.parametrize(("expression", "firings"), QUARTZ)
    def test_is_right_about_our_quartz(self, expression: str, firings: str) -> None:
        schedule = Schedule(ScheduleType.CRON, cron=expression, cron_dialect="quartz")
        assert told(lambda: ours(schedule, moment("2026-01-01")), firings, "%dT%H:%M") == firings

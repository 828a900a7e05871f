"""Days of the month that move (Quartz's ``15W``, ``LW``, ``L-3``, ``L-3W``): those that a walk day by day finds."""

from datetime import datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.cron import CronExpression, WallTimes, parse_cron
from jobs.core.errors import InvalidInput
from tests.core.test_fire_time_properties import examples
from tests.core.walk import matcher

pytestmark = pytest.mark.slow

#: One of the moving days of Quartz, or a list of them and others.
MOVING = st.lists(
    st.one_of(
        st.integers(1, 31).map("{}W".format),
        st.integers(1, 30).map("L-{}".format),
        st.integers(1, 30).map("L-{}W".format),
        st.sampled_from(("L", "LW", "7", "10-12")),
    ),
    min_size=1,
    max_size=3,
    unique=True,
).filter(lambda terms: any(set("W-") & set(term[1:]) for term in terms if term[0] == "L" or "W" in term))


def read(expression: str) -> CronExpression | None:
    """None if it never fires."""
    try:
        return parse_cron(expression, "quartz")
    except InvalidInput as error:
        if "never fires" in str(error):
            return None
        raise


class TestMovingDays:
    @examples(300)
    @given(MOVING.map(",".join), st.sampled_from(("*", "2", "1-6", "*/5")), st.integers(2000, 2090))
    def test_are_those_that_a_walk_day_by_day_finds(self, days: str, months: str, year: int) -> None:
        matches, _ = matcher(f"0 0 0 {days} {months} ?")
        start = datetime(year, 1, 1)
        found = [day for day in (start + timedelta(days=nth) for nth in range(3 * 366)) if matches(day)]
        if (expression := read(f"0 0 0 {days} {months} ?")) is None:
            assert found == []
            return
        walls = expression.walls(after=start - timedelta(seconds=1))
        assert list(takewhile(lambda wall: wall < start + timedelta(days=3 * 366), walls)) == found
        counted = WallTimes(expression, first_year=year, last_year=year + 3)
        assert [counted.nth(index) for index in range(len(found))] == found
        assert [counted.rank(day) for day in found] == list(range(1, len(found) + 1))

    @examples(100)
    @given(MOVING.map(",".join), st.sampled_from(("*/25 7/20 3-5", "* 59 23", "0 0,30 *")), st.data())
    def test_have_the_times_of_day_of_the_others(self, days: str, times: str, data: st.DataObject) -> None:
        expression = read(f"{times} {days} * ?")
        assert expression is not None
        every_day = parse_cron(f"{times} * * ?", "quartz")
        matches, _ = matcher(f"* * * {days} * ?")
        after = datetime(2026, 1, 1) + timedelta(seconds=data.draw(st.integers(0, 300 * 86_400)))
        until = after + timedelta(days=40)
        walls = takewhile(lambda wall: wall < until, every_day.walls(after=after))
        expected = [wall for wall in walls if matches(wall)]
        assert list(takewhile(lambda wall: wall < until, expression.walls(after=after))) == expected

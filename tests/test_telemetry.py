"""What is away fills no log."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from jobs import telemetry
from jobs.store import db
from jobs.telemetry import OUTAGE_LINE_SECONDS, Outage

Said = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """What was written since the last time it was asked."""

    def read() -> list[dict[str, Any]]:
        lines = [record.msg for record in caplog.records if record.name == "carillon"]
        caplog.clear()
        return lines

    return read


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    monkeypatch.setattr(telemetry.time, "monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


class TestAnOutage:
    def test_is_a_line_at_its_start_one_every_ten_seconds_and_one_at_its_end(self, said, pass_time) -> None:
        outage = Outage("thing away")
        for _ in range(400):  # 25 s of sixteen tries a second
            outage.failed(OSError("refused\nand more"), what="finish")
            pass_time(1 / 16)
        outage.over()
        first, second, third, last = said()
        assert (first["event"], first["error"], first["what"]) == ("thing away", "refused", "finish")
        assert [(line["failures"], line["seconds"]) for line in (second, third)] == [(161, 10), (321, 20)]
        assert (last["event"], last["failures"], last["seconds"]) == ("thing away: over", 400, 25.0)

    def test_that_comes_and_goes_writes_no_more_than_one_that_stays(self, said, pass_time) -> None:
        outage = Outage("thing away")
        for _ in range(200):
            outage.failed(OSError("refused"))
            outage.over()
            pass_time(0.05)
        assert len(said()) == 2
        pass_time(OUTAGE_LINE_SECONDS)
        outage.failed(OSError("refused"))
        assert len(said()) == 1

    def test_is_over_once(self, said) -> None:
        outage = Outage("thing away")
        outage.over()
        outage.failed(TimeoutError())
        outage.over()
        outage.over()
        assert [line["event"] for line in said()] == ["thing away", "thing away: over"]


@pytest.mark.django_db(transaction=True)
def test_a_database_is_back_with_the_next_statement_that_goes_well(said, monkeypatch) -> None:
    monkeypatch.setattr(db, "_outage", Outage("database away"))
    one = db.Query("one", "SELECT 1 AS one")
    one()
    with connection.cursor() as cursor, pytest.raises(db.DISCONNECTED):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    tries: list[int] = []

    def act() -> list[Any]:
        tries.append(1)
        return one()

    db.until_connected(act, patience_seconds=20, what="read")
    assert len(tries) == 2
    assert [line["event"] for line in said()] == ["database away", "database away: over"]

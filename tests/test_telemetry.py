"""Outages and frequent events do not fill the log."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection

from jobs.store import db
from jobs.telemetry import OUTAGE_LINE_SECONDS, Outage, Sampled, outage
from jobs.telemetry.sampling import MAX_LINES_A_SECOND
from stage.waiting import wait_until
from tenants.models import Tenant

Said = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """The lines that were written since the last call."""

    def read() -> list[dict[str, Any]]:
        lines = [record.msg for record in caplog.records if record.name == "carillon"]
        caplog.clear()
        return lines

    return read


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    monkeypatch.setattr(outage.time, "monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


class TestAnOutage:
    def test_is_a_line_at_its_start_one_every_ten_seconds_and_one_at_its_end(self, said, pass_time) -> None:
        outage = Outage("thing away")
        for _ in range(400):  # 25 s with sixteen tries a second
            outage.failed(OSError("refused\nand more"), what="finish")
            pass_time(1 / 16)
        outage.over()
        first, second, third, last = said()
        assert (first["event"], first["error"], first["what"]) == ("thing away", "refused", "finish")
        assert [(line["failures"], line["seconds"]) for line in (second, third)] == [(161, 10), (321, 20)]
        assert (last["event"], last["failures"], last["seconds"]) == ("thing away: over", 400, 25.0)

    def test_says_at_its_end_what_it_cost(self, said) -> None:
        outage = Outage("thing away", whose="ours")
        outage.failed(OSError("refused"))
        outage.over(lost=3)
        last = said()[-1]
        assert (last["event"], last["whose"], last["lost"]) == ("thing away: over", "ours", 3)

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


class TestSampledLines:
    @pytest.fixture
    def sampled(self) -> Iterator[tuple[Sampled[int], list[tuple[str, int, int]]]]:
        written: list[tuple[str, int, int]] = []
        sampled: Sampled[int] = Sampled(lambda *line: written.append(line))
        yield sampled, written
        sampled.flush()

    def test_are_all_written_while_they_are_few(self, sampled, pass_time) -> None:
        sample, written = sampled
        for number in range(30):
            sample.note("end", number)
            pass_time(0.101)
        assert written == [("end", number, 1) for number in range(30)]

    def test_stand_for_those_of_their_kind_that_are_left_out(self, sampled, pass_time) -> None:
        sample, written = sampled
        for number in range(100):
            sample.note("rare" if number == 50 else "end", number)
        assert written == [("end", number, 1) for number in range(10)]
        pass_time(1)
        sample.flush()  # as the thread does when the second is over
        assert sorted(written[10:]) == [("end", 99, 89), ("rare", 50, 1)]

    def test_that_told_of_the_last_second_count_in_the_next_one(self, sampled, pass_time) -> None:
        sample, written = sampled
        for second in range(5):
            before = len(written)
            sample.flush()  # as the thread does when the second before is over
            for number in range(50):
                sample.note("end", second * 50 + number)
            assert len(written) - before == MAX_LINES_A_SECOND
            pass_time(1)
        sample.flush()
        assert sum(count for *_, count in written) == 250

    def test_come_without_anything_that_follows(self, sampled) -> None:
        sample, written = sampled
        for number in range(25):
            sample.note("end", number)
        wait_until(lambda: sum(count for *_, count in written) == 25, 30, what="the last line")

    def test_add_up_where_threads_write_at_once(self, sampled) -> None:
        sample, written = sampled
        threads = [
            threading.Thread(target=lambda: [sample.note("end", n) for n in range(1000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sample.flush()
        assert sum(count for *_, count in written) == 4000

    def test_wait_for_a_thread_that_cannot_be_had(self, sampled, pass_time, monkeypatch) -> None:
        def refuse(_: threading.Timer) -> None:
            raise RuntimeError("can't start new thread")

        sample, written = sampled
        monkeypatch.setattr(threading.Timer, "start", refuse)
        for number in range(15):
            sample.note("end", number)
        monkeypatch.undo()
        sample.note("end", 15)
        wait_until(lambda: sum(count for *_, count in written) == 16, 30, what="the last line")

    def test_of_a_parent_are_not_written_by_its_child(self, sampled) -> None:
        sample, written = sampled
        for number in range(15):
            sample.note("end", number)
        child = os.fork()
        if not child:
            sample._lock.acquire()  # as another thread of the parent may have, forever
            sample.flush()
            os._exit(len(written) - 10)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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


@pytest.mark.django_db(transaction=True)
def test_a_database_is_back_with_the_next_connection_for_whoever_asks_by_the_orm(said) -> None:
    db.note_away(OperationalError("gone"), what="api")
    connection.close()
    Tenant.objects.exists()
    assert [line["event"] for line in said()] == ["database away", "database away: over"]


@pytest.mark.django_db
def test_statements_that_are_given_up_are_told_of_as_an_outage_too(said) -> None:
    one = db.Query("one", "SELECT 1 AS one")
    for _ in range(50):
        db.note_away(db.StatementFailed("canceling statement due to lock timeout"), what="claim")
    one()
    first, over = said()
    assert (first["event"], first["what"]) == ("statement failed", "claim")
    assert (over["event"], over["failures"]) == ("statement failed: over", 50)

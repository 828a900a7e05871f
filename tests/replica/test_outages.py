"""A replica that lags, idles, dies or hangs: history is read within the bound, and no reader waits or fails for it."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import close_old_connections, connection, connections
from django.test import Client

from jobs.api.metrics import exposition
from jobs.models import Trigger
from jobs.store import replica as history
from jobs.store.db.routing import PRIMARY, REPLICA, server_of_history
from jobs.store.replica.standing import Word, standing_of
from jobs.store.replica.watch import WATCH
from stage.waiting import wait_until
from tenants.models import Tenant
from tests import factories
from tests.replica.conftest import allow_lag
from tests.replica.server import Replica

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def closely(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replica]:
    """No answer may be older than three seconds."""
    allow_lag(monkeypatch, 3)
    yield replica
    if replica.running() is None:
        replica.revive()
    replica.resume()
    replica.catch_up()


def look_until(word: Word) -> None:
    def found() -> bool:
        WATCH.look()
        return WATCH.condition().word is word

    wait_until(found, 30, what=f"the replica to be {word}")


def server_read() -> str:
    return history.read(lambda as_of: server_of_history())


def is_read() -> bool:
    """Whether the replica is read, once this process knows it."""
    return wait_until(lambda: WATCH.look() or server_read() == REPLICA, 30, what="the replica to be read")


def told(lines: Lines) -> list[dict[str, Any]]:
    return [line for line in lines() if line["event"].startswith("replica not used")]


def write() -> None:
    factories.make_tenant()


class TestAnIdlePrimary:
    def test_does_not_look_like_lag(self, closely: Replica) -> None:
        write()
        with connection.cursor() as cursor:
            # The next record comes after the long header of a segment.
            cursor.execute("SELECT pg_switch_wal()")
        closely.catch_up()

        def long_ago() -> bool:
            WATCH.look()
            assert WATCH.condition().word is Word.OK, WATCH.condition()
            [(idle,)] = closely.query("SELECT clock_timestamp() - pg_last_xact_replay_timestamp()")
            return bool(idle > timedelta(seconds=4))  # autovacuum writes every ten seconds

        wait_until(long_ago, 60, what="four seconds without a write")
        assert is_read()


class TestALag:
    def test_bounds_how_old_an_answer_is_and_is_told_of_once(self, closely: Replica, lines: Lines) -> None:
        closely.pause()
        write()
        look_until(Word.BEHIND)
        assert server_read() == PRIMARY
        closely.resume()
        assert is_read()
        began, over = told(lines)
        assert (began["event"], began["status"]) == ("replica not used", "behind")
        assert "CARILLON_REPLICA_MAX_LAG_SECONDS allows 3." in began["error"]
        assert over["event"] == "replica not used: over"

    def test_is_no_further_than_the_time_that_is_told(self, replica: Replica) -> None:
        """Under writes without a pause, everything committed by the reported time is there."""
        ending = threading.Event()

        def writing() -> None:
            while not ending.is_set():
                write()
            connection.close()

        writer = threading.Thread(target=writing)
        writer.start()
        try:
            for _ in range(40):
                WATCH.look()
                with connection.cursor() as cursor:
                    cursor.execute("SELECT clock_timestamp(), count(*) FROM tenants_tenant")
                    [(at, least)] = cursor.fetchall()
                as_of, count = history.read(_counted)
                assert as_of is None or as_of < at or count >= least
                assert as_of is None or datetime.now(UTC) - as_of < timedelta(seconds=120)
        finally:
            ending.set()
            writer.join()
        assert history.read(lambda as_of: as_of) is not None

    def test_is_judged_by_each_read_not_by_the_last_look(self, closely: Replica) -> None:
        closely.pause()
        write()
        WATCH.look()
        wait_until(lambda: server_read() == PRIMARY, 30, what="a read to find it behind")
        assert WATCH.condition().word is Word.OK

    def test_of_a_process_that_has_just_begun_is_no_outage(
        self, replica: Replica, monkeypatch: pytest.MonkeyPatch, lines: Lines
    ) -> None:
        """Nothing was written for long, and then something at this very moment."""
        replica.pause()
        write()
        allow_lag(monkeypatch, 600)
        monkeypatch.setattr(WATCH, "marks", ())
        monkeypatch.setattr(
            "jobs.store.replica.watch.standing_of",
            lambda row: standing_of(row._replace(replayed_at=row.replayed_at - timedelta(hours=1))),
        )
        WATCH.look()
        replica.resume()
        assert WATCH.condition().word is Word.UNKNOWN
        assert server_read() == PRIMARY
        assert told(lines) == []


def _counted(as_of: datetime | None) -> tuple[datetime | None, int]:
    return as_of, Tenant.objects.count()


class TestADeath:
    def test_fails_no_read_and_is_told_of_at_its_beginning_and_its_end(
        self, closely: Replica, lines: Lines
    ) -> None:
        trigger = factories.make_trigger(state="dead")
        closely.catch_up()
        assert is_read()
        closely.kill()
        ids = history.read(lambda as_of: (as_of, [row.id for row in Trigger.objects.all()]))
        assert ids == (None, [trigger.id])
        assert WATCH.condition().word is Word.AWAY  # the next request does not even try
        assert told(lines) == []
        WATCH.look()
        assert server_read() == PRIMARY
        closely.revive()
        assert is_read()
        began, over = told(lines)
        assert (began["event"], began["status"]) == ("replica not used", "away")
        assert over["event"] == "replica not used: over"

    def test_that_was_over_before_the_next_request_is_not_noticed_by_it(self, closely: Replica) -> None:
        assert is_read()
        closely.kill()
        closely.revive()
        close_old_connections()  # as each request does at its beginning
        assert is_read()


class TestAServerThatHangs:
    def test_lets_go_of_reads_that_wait_for_it(
        self, replica: Replica, monkeypatch: pytest.MonkeyPatch, lines: Lines
    ) -> None:
        """Its kernel accepts the data sent, and the server does not answer: no time-out of the server ends that."""
        assert server_read() == REPLICA
        sent, answers = threading.Event(), []

        def read(as_of: datetime | None) -> str:
            if as_of is not None:
                sent.set()
                with connections[REPLICA].cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(600)")
            return server_of_history()

        def reading() -> None:
            answers.append(history.read(read))
            connections[REPLICA].close()
            connection.close()

        reader = threading.Thread(target=reading)
        reader.start()
        assert sent.wait(20)
        monkeypatch.setattr("jobs.store.replica.watch.PATIENCE_SECONDS", 2.0)
        replica.freeze()
        try:
            WATCH.look()
            reader.join(20)
            assert answers == [PRIMARY]
            assert server_read() == PRIMARY
        finally:
            replica.thaw()
        look_until(Word.OK)
        assert "did not answer within 2 s" in told(lines)[0]["error"]


class TestHowItIs:
    def test_is_told_by_readyz_and_in_metrics(self, closely: Replica) -> None:
        look_until(Word.OK)
        told = Client().get("/readyz").json()
        assert (told["status"], told["replica"], "replica_reason" in told) == ("ok", "ok", False)
        assert figures()["carillon_replica_up"] == 1
        assert 0 <= figures()["carillon_replica_lag_seconds"] < 60
        closely.pause()
        write()
        look_until(Word.BEHIND)
        answer = Client().get("/readyz")
        told = answer.json()
        assert (answer.status_code, told["status"], told["replica"]) == (200, "degraded", "behind")
        assert "s behind" in told["replica_reason"]
        assert figures()["carillon_replica_up"] == 0
        assert figures()["carillon_replica_lag_seconds"] > 3

    def test_is_unknown_once_nobody_looks_any_more(
        self, replica: Replica, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.store.replica.watch.STALE_SECONDS", 0)
        assert WATCH.condition().word is Word.UNKNOWN
        assert server_read() == PRIMARY

    def test_is_not_told_where_there_is_none(self, transactional_db: None) -> None:
        assert "replica" not in Client().get("/readyz").json()
        assert not any(name.startswith("carillon_replica") for name in figures())


def figures() -> dict[str, float]:
    lines = [line for line in exposition().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

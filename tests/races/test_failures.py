"""Errors of the database that mean that it is away, or that a statement failed: by SQLSTATE, from real errors."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError, IntegrityError, InternalError, OperationalError, ProgrammingError, connection
from psycopg import sql

from jobs.store import db
from jobs.store.db import StatementFailed
from tests.races.conftest import Rival

ONE = db.Query("one", "SELECT 1 AS one")


def raised(state: str) -> Callable[[], Any]:
    """A statement that the server answers with this SQLSTATE."""
    body = f"DO $$ BEGIN RAISE EXCEPTION 'as ordered' USING ERRCODE = '{state}'; END $$"
    return db.Query("raised", body)


def caught(action: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as found:  # noqa: PT011
        action()
    return found.value


@pytest.mark.django_db(transaction=True)
class TestServerThatSays:
    """By the table: the error that each SQLSTATE becomes, in a transaction and without one."""

    @pytest.mark.parametrize("state", [*sorted(db.AWAY), "08000", "08003", "08006", "08P01"])
    @pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
    def test_that_it_is_not_there_is_away(self, state: str, inside: bool) -> None:
        assert isinstance(caught(_within(inside, raised(state))), db.DISCONNECTED)

    @pytest.mark.parametrize(
        "state",
        ["57014", "55P03", "40P01", "40001", "53100", "53200", "53300", "53400", "54000", "55006", "58030"],
    )
    @pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
    def test_that_it_gave_the_statement_up_is_a_failed_statement(self, state: str, inside: bool) -> None:
        error = caught(_within(inside, raised(state)))
        assert isinstance(error, StatementFailed)
        assert not isinstance(error, db.DISCONNECTED)
        assert (db.sqlstate(error), ONE()[0].one) == (state, 1), "the connection is as good as before"

    @pytest.mark.parametrize(
        ("state", "kind"),
        [
            ("23505", IntegrityError),
            ("23514", IntegrityError),
            ("22P02", DataError),
            ("22003", DataError),
            ("42P01", ProgrammingError),
            ("42501", ProgrammingError),
            ("XX000", InternalError),
            ("25P02", InternalError),
        ],
    )
    def test_that_we_are_wrong_stays_what_it_is(self, state: str, kind: type[Exception]) -> None:
        error = caught(_within(True, raised(state)))
        assert type(error) is kind
        assert not isinstance(error, db.TRANSIENT)


def _within(inside: bool, action: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with db.atomic():
            return action()

    return run if inside else action


def _set(name: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))


@pytest.mark.django_db(transaction=True)
class TestReal:
    """The same for faults that really happen."""

    @pytest.fixture(autouse=True)
    def settings_back(self, transactional_db: None) -> Any:
        yield
        connection.close()

    def test_statement_timeout(self) -> None:
        _set("statement_timeout", "20ms")
        assert isinstance(caught(db.Query("slow", "SELECT pg_sleep(5)")), StatementFailed)

    def test_lock_timeout(self, rival: Rival) -> None:
        lock = db.Query("lock", "LOCK TABLE jobs_queue IN ACCESS EXCLUSIVE MODE")
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(lock)
        _set("lock_timeout", "20ms")
        assert isinstance(caught(db.Query("read", "SELECT FROM jobs_queue")), StatementFailed)
        rival.do(lambda: connection.close())

    def test_deadlock(self, rival: Rival) -> None:
        one, two = (db.Query("lock", f"LOCK TABLE {name}") for name in ("jobs_queue", "jobs_message"))
        rival.do(lambda: _set("deadlock_timeout", "1h"))  # so that our own connection finds the deadlock
        _set("deadlock_timeout", "20ms")
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(two)

        def meet() -> None:
            with db.atomic():
                one()
                rival.start(one)
                rival.wait_until_blocked()
                two()

        error = caught(meet)
        assert (type(error), db.sqlstate(error)) == (StatementFailed, "40P01")
        rival.do(lambda: connection.close())

    def test_connection_that_was_terminated(self, rival: Rival) -> None:
        ONE()
        pid = connection.connection.info.backend_pid
        rival.do(db.Query("end", f"SELECT pg_terminate_backend({pid})"))
        assert isinstance(caught(ONE), db.DISCONNECTED)

    def test_server_that_cannot_be_reached(self) -> None:
        connection.close()
        kept = connection.settings_dict["PORT"]
        connection.settings_dict["PORT"] = 1
        try:
            assert isinstance(caught(ONE), db.DISCONNECTED)
        finally:
            connection.settings_dict["PORT"] = kept


class TestUntilConnected:
    def test_repeats_a_statement_that_failed_on_the_same_connection(
        self, db_access_spy: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = iter([StatementFailed("lock timeout"), OperationalError("gone"), 7])

        def action() -> int:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert db.until_connected(action, patience_seconds=10, what="a test") == 7
        assert db_access_spy == ["disconnect"], "for the one that was away"

    @pytest.fixture
    def db_access_spy(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        found: list[str] = []
        monkeypatch.setattr(db, "disconnect", lambda: found.append("disconnect"))
        monkeypatch.setattr(db.time, "sleep", lambda _: None)
        return found

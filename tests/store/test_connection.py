"""Whether a connection still stands: known without asking the server, unless the server has sent something unasked."""

import select
from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from stage.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def other() -> Iterator[BaseDatabaseWrapper]:
    """A connection beside the test's own."""
    other = connections.create_connection("default")
    other.connect()
    yield other
    other.close()


def ask(connection: BaseDatabaseWrapper, statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        (answer,) = cursor.fetchone()
        return answer


class TestAConnection:
    def test_that_stands_is_usable_and_the_server_is_not_asked(self, other: BaseDatabaseWrapper) -> None:
        pid = ask(other, "SELECT pg_backend_pid() AS mark")
        assert other.is_usable()
        last = ask(connection, f"SELECT query FROM pg_stat_activity WHERE pid = {pid}")
        assert last == "SELECT pg_backend_pid() AS mark"

    def test_that_the_server_ended_is_not_usable(self, other: BaseDatabaseWrapper) -> None:
        pid = ask(other, "SELECT pg_backend_pid()")
        assert ask(connection, f"SELECT pg_terminate_backend({pid})")
        wait_until(lambda: not other.is_usable(), what="the end of the connection")

    def test_that_was_closed_here_is_not_usable(self, other: BaseDatabaseWrapper) -> None:
        assert other.connection is not None
        other.connection.close()
        assert not other.is_usable()

    def test_on_which_the_server_said_something_harmless_stays_usable(
        self, other: BaseDatabaseWrapper
    ) -> None:
        with other.cursor() as cursor:
            cursor.execute("LISTEN test_connection")
        teller = connections.create_connection("default")
        with teller.cursor() as cursor:
            cursor.execute("NOTIFY test_connection")
        teller.close()
        wait_until(lambda: select.select([other.connection], [], [], 0)[0], what="the notification")
        assert other.is_usable()

"""Which trouble with the database is waited out: a server that is away or as good as away."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import DataError, InternalError, connection, transaction

from jobs.store import db
from stage.waiting import wait_until

pytestmark = pytest.mark.slow

ONE = db.Query("one", "SELECT 1 AS one")


def in_one_transaction(*steps: Callable[[], object]) -> None:
    with db.atomic():
        for step in steps:
            step()


def divide_by_zero() -> None:
    """Fail, and go on in the transaction that this broke."""
    with suppress(DataError):
        db.Query("wrong", "SELECT 1 / 0")()


def idle_for_too_long() -> None:
    """Let the server end this connection's open transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
    pid, other = connection.connection.info.backend_pid, connection.copy()
    try:
        with other.cursor() as cursor:
            wait_until(lambda: _gone(cursor, pid), timeout=30, what="the end of the idle transaction")
    finally:
        other.close()


def _gone(cursor, pid):
    cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid])
    return cursor.fetchone() is None


@pytest.mark.django_db(transaction=True)
class TestAway:
    @pytest.mark.parametrize("kept", [False, True], ids=["planned", "kept"])
    def test_is_a_server_that_ended_our_transaction_for_idling(self, kept, monkeypatch):
        monkeypatch.setattr(db, "_keeping", kept)
        query = db.Query("one", ONE.sql, {"plan": ["kept"]})
        with pytest.raises(db.DISCONNECTED):
            in_one_transaction(idle_for_too_long, query)

    def test_is_one_that_did_so_before_the_commit(self):
        with pytest.raises(db.DISCONNECTED):
            in_one_transaction(ONE, idle_for_too_long)

    def test_is_a_standby_that_takes_no_writes_yet(self):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            with pytest.raises(db.DISCONNECTED):
                db.Query("written", "DELETE FROM jobs_lease")()


@pytest.mark.django_db
class TestOurFault:
    def test_is_not_waited_out(self):
        """A statement in a transaction that an earlier one broke: an InternalError, too, but it fails for good."""
        with pytest.raises(InternalError) as caught:
            in_one_transaction(divide_by_zero, ONE)
        assert not isinstance(caught.value, db.DISCONNECTED)

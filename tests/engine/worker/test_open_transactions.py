"""Handlers that leave a transaction open behind them."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, DataError, connection, transaction

from jobs.handlers import Context, Permanent
from jobs.models import Job
from tests.engine.conftest import Perform, queued
from tests.engine.worker.conftest import Register, ended
from tests.factories import attempts

pytestmark = pytest.mark.django_db(transaction=True)


def begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def switch_autocommit_off() -> None:
    transaction.set_autocommit(False)


def enter_a_block() -> None:
    transaction.atomic().__enter__()


def break_a_transaction() -> None:
    begin()
    with connection.cursor() as cursor, contextlib.suppress(DataError):
        cursor.execute("SELECT 1 / 0")


class TestATransactionLeftOpen:
    LEAVING = [begin, switch_autocommit_off, enter_a_block, break_a_transaction]

    @pytest.mark.parametrize("leave_open", LEAVING)
    def test_is_rolled_back_and_fails_the_attempt_alone(
        self, perform: Perform, handler: Register, leave_open: Callable[[], None]
    ) -> None:
        def careless(ctx: Context, payload: dict[str, Any]) -> str:
            if ctx.trigger_id == bad.id:
                Job.objects.filter(id=bad.job_id).update(name="kept: committed before")
                leave_open()
                with contextlib.suppress(DatabaseError):
                    Job.objects.filter(id=bad.job_id).update(name="lost: never committed")
            return "done"

        name = handler(careless, batch_size=3)
        triggers = [queued(name) for _ in range(3)]
        bad = triggers[1]
        assert perform(*triggers) == {"succeeded": 2, "retrying": 1}
        # Looked at from another connection: the records are committed, and no lock is held.
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute(
                    "SELECT state FROM jobs_trigger WHERE id = ANY(%s) FOR UPDATE NOWAIT",
                    [[trigger.id for trigger in triggers]],
                )
                assert sorted(state for (state,) in cursor.fetchall()) == [
                    "retrying",
                    "succeeded",
                    "succeeded",
                ]
                cursor.execute("SELECT name FROM jobs_job WHERE id = %s", [bad.job_id])
                assert cursor.fetchone() == ("kept: committed before",)
        finally:
            other.close()
        assert ended(bad) == ("retrying", "failed", "open_transaction")
        assert "transaction.atomic()" in attempts(bad)[0].error_message

    def test_leaves_what_failed_anyway_its_own_reason(self, perform: Perform, handler: Register) -> None:
        def careless(ctx: Context, payload: dict[str, Any]) -> None:
            begin()
            raise Permanent("No such account.", code="no_account")

        trigger = queued(handler(careless))
        assert perform(trigger) == {"dead": 1}
        assert ended(trigger) == ("dead", "failed", "no_account")
        assert "left a transaction open" in attempts(trigger)[0].error_message
        assert "No such account." in attempts(trigger)[0].error_message

"""The index of attempts that went wrong: each partition has its part, and each outcome keeps it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from jobs.handlers.outcome import Outcome
from jobs.store import partitions

PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'jobs_attempt'::regclass"
PARTS = """
    SELECT indrelid::regclass::text FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid
    WHERE inhparent = 'jobs_attempt_failed'::regclass AND indisvalid
"""


def names(statement: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.django_db
def test_a_partition_that_is_made_later_has_its_part(clock: Callable[[timedelta], None]) -> None:
    clock(timedelta(weeks=1))
    created = partitions.ensure(partitions.ATTEMPTS)
    assert set(created) < names(PARTITIONS) == names(PARTS)


@pytest.mark.parametrize("kind", ["failed", "timed_out", "cancelled"])
def test_whatever_is_no_success_has_an_error_code(kind: str) -> None:
    assert Outcome(kind).error_code == kind  # type: ignore[arg-type]
    assert Outcome(kind, error_code="mine").error_code == "mine"  # type: ignore[arg-type]
    assert Outcome("succeeded").error_code == ""

"""The index of attempts that went wrong: made beside claims, whatever stopped it halfway; kept by every outcome."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from jobs.handlers.outcome import Outcome
from jobs.store import history

migration = import_module("jobs.migrations.0039_failed_attempts")
EDITOR = SimpleNamespace(connection=connection)
PARTS = """
    SELECT indrelid::regclass::text, indisvalid FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid
    WHERE inhparent = 'jobs_attempt_failed'::regclass
"""


def rows(statement: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def is_whole() -> bool:
    """Whether there is the index, and each partition has its valid part."""
    partitions = rows(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'jobs_attempt'::regclass"
    )
    valid = rows("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('jobs_attempt_failed')")
    return valid == [(True,)] and sorted(rows(PARTS)) == sorted((name, True) for (name,) in partitions)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
class TestTheMigration:
    @pytest.fixture(autouse=True)
    def made_after_all(self, transactional_db: None) -> Iterator[None]:
        assert is_whole()
        yield
        migration.make(None, EDITOR)

    def test_makes_it_and_changes_nothing_the_second_time(self) -> None:
        migration.drop(None, EDITOR)
        assert rows("SELECT to_regclass('jobs_attempt_default_failed')") == [(None,)]
        for _ in range(2):
            migration.make(None, EDITOR)
            assert is_whole()

    def test_takes_as_long_as_it_takes_and_leaves_the_session_s_bounds_as_they_were(self) -> None:
        migration.drop(None, EDITOR)
        bounds = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        before, during = rows(bounds), []

        def watched(execute: Any, sql: str, *rest: Any) -> Any:
            if "CONCURRENTLY" in sql:
                during.append(rows(bounds))
            return execute(sql, *rest)

        with connection.execute_wrapper(watched):
            migration.make(None, EDITOR)
        assert before != [("0", "0")] == during[0]
        assert rows(bounds) == before

    def test_goes_on_where_it_was_killed(self) -> None:
        """Before a part, between a part and its attachment, and in the middle of a part, which is left invalid."""
        migration.drop(None, EDITOR)
        rows("CREATE INDEX jobs_attempt_failed ON ONLY jobs_attempt (tenant_id, id) WHERE error_code <> ''")
        rows(
            "CREATE INDEX jobs_attempt_default_failed ON jobs_attempt_default (tenant_id, id) WHERE error_code <> ''"
        )
        [(partition,)] = rows(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'jobs_attempt'::regclass "
            "AND inhrelid <> 'jobs_attempt_default'::regclass LIMIT 1"
        )
        rows(f"CREATE INDEX {partition}_failed ON {partition} (tenant_id, id) WHERE error_code <> ''")
        rows(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{partition}_failed'::regclass")
        migration.make(None, EDITOR)
        assert is_whole()

    def test_leaves_a_partition_alone_that_got_its_part_when_it_was_attached(
        self, clock: Callable[[timedelta], None]
    ) -> None:
        clock(timedelta(weeks=1))
        created = history.ensure_partitions()
        assert is_whole()
        migration.make(None, EDITOR)
        assert is_whole()
        for name in created:
            rows(f"DROP TABLE {name}")


@pytest.mark.parametrize("kind", ["failed", "timed_out", "cancelled"])
def test_whatever_is_no_success_has_an_error_code(kind: str) -> None:
    assert Outcome(kind).error_code == kind  # type: ignore[arg-type]
    assert Outcome(kind, error_code="mine").error_code == "mine"  # type: ignore[arg-type]
    assert Outcome("succeeded").error_code == ""

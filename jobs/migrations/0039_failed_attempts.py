"""GET /attempts: the attempts of a tenant that went wrong, newest first.

Each partition's index is made concurrently, so claims go on meanwhile. May be run again after it was stopped halfway,
or after a partition was dropped under it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import migrations

NAME = "jobs_attempt_failed"
#: What is no success has an error code. The end of a success leaves its own empty, and so touches no index.
#: Ascending: at the end of what a tenant has, pages are filled before they are split.
_OF = "(tenant_id, id) WHERE error_code <> ''"
#: A partition that is attached later gets its own part at once.
_WITHOUT = """
    SELECT inhrelid::regclass::text FROM pg_inherits partition
    WHERE inhparent = 'jobs_attempt'::regclass AND NOT EXISTS (
        SELECT FROM pg_inherits part JOIN pg_index ON indexrelid = part.inhrelid
        WHERE part.inhparent = %s::regclass AND indrelid = partition.inhrelid)
"""
_BOUND = "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)"
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"


def make(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _briefly(cursor, f"CREATE INDEX IF NOT EXISTS {NAME} ON ONLY jobs_attempt {_OF}")
        cursor.execute(_WITHOUT, [NAME])
        for (partition,) in cursor.fetchall():
            part = f"{partition}_failed"
            with _bounded(cursor, "0"):
                cursor.execute(_IS_VALID, [part])
                if cursor.fetchone() == (False,):
                    cursor.execute(f"DROP INDEX CONCURRENTLY {part}")
                cursor.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {part} ON {partition} {_OF}")
            _briefly(cursor, f"ALTER INDEX {NAME} ATTACH PARTITION {part}")


def _briefly(cursor: Any, statement: str) -> None:
    """What takes no time but locks the table: claims wait behind it while it waits for the lock."""
    with _bounded(cursor, "2s"):
        cursor.execute(statement)


@contextmanager
def _bounded(cursor: Any, patience: str) -> Iterator[None]:
    """Statements may wait for a lock, and take, so long; ``0``: without end, as an index of a large table does."""
    cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
    before = cursor.fetchone()
    cursor.execute(_BOUND, [patience, patience])
    try:
        yield
    finally:
        cursor.execute(_BOUND, before)


def drop(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0036_activity")]
    operations = [migrations.RunPython(make, drop)]

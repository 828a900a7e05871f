"""For the console: how busy each worker is, which version each process runs, and which minutes had troubles.

The index over the counts of minutes is made part by part and concurrently: processes go on adding to them meanwhile. May
be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_attempts = import_module("jobs.migrations.0039_failed_attempts")
NAME, TABLE = "activityminute_troubled", "jobs_activityminute"
_TROUBLES = (
    "skipped_misfire",
    "skipped_coalesced",
    "skipped_overlap",
    "ended_lost",
    "buried_exhausted",
    "buried_permanent",
    "buried_poison",
    "buried_lost",
)
_OF = f"(minute, tenant_id) WHERE coalesce({', '.join(_TROUBLES)}) IS NOT NULL"
_WITHOUT = """
    SELECT inhrelid::regclass::text FROM pg_inherits partition
    WHERE inhparent = %s::regclass AND NOT EXISTS (
        SELECT FROM pg_inherits part JOIN pg_index ON indexrelid = part.inhrelid
        WHERE part.inhparent = %s::regclass AND indrelid = partition.inhrelid)
"""


def make(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _attempts._briefly(cursor, f"CREATE INDEX IF NOT EXISTS {NAME} ON ONLY {TABLE} {_OF}")
        cursor.execute(_WITHOUT, [TABLE, NAME])
        for (partition,) in cursor.fetchall():
            part = f"{partition}_troubled"
            with _attempts._bounded(cursor, "0"):
                cursor.execute(_attempts._IS_VALID, [part])
                if cursor.fetchone() == (False,):
                    cursor.execute(f"DROP INDEX CONCURRENTLY {part}")
                cursor.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {part} ON {partition} {_OF}")
            _attempts._briefly(cursor, f"ALTER INDEX {NAME} ATTACH PARTITION {part}")


def drop(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0054_access")]

    operations = [
        migrations.AddField("worker", "busy", models.PositiveIntegerField(null=True)),
        migrations.AddField(
            "clock", "version", models.CharField(max_length=32, default="", db_default="", blank=True)
        ),
        migrations.RunPython(make, drop),
    ]

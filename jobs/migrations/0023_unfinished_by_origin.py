"""Find a job's unfinished triggers by sight and origin as well, beside those who write.

Dispatch looks for the oldest and newest firing of a schedule that waits, and counts the triggers it sees. With a
hundred thousand parked triggers, or as many that were run by hand, both read them all in every turn.

May be begun again after any of its statements.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_events = import_module("jobs.migrations.0010_event_partitions")
_found = import_module("jobs.migrations.0020_runs_of_tasks_found")
_UNFINISHED = ["pending", "retrying", "in_flight"]
_COLUMNS = {
    "trigger_unfinished_by_job": "job_id, phase, held, origin, scheduled_for",
    "trigger_unfinished_of_job": "job_id, phase, scheduled_for",
}


def _swap(cursor: Any, *, new: str, old: str) -> None:
    cursor.execute(_found._IS_VALID, [new])
    is_valid = cursor.fetchone()
    with _events._patient(cursor):
        if is_valid == (False,):
            cursor.execute(f"DROP INDEX CONCURRENTLY {new}")
        if is_valid != (True,):
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {new} ON jobs_trigger ({_COLUMNS[new]})"
                " WHERE phase IN ('pending', 'retrying', 'in_flight')"
            )
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {old}")


def make(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _swap(cursor, new="trigger_unfinished_by_job", old="trigger_unfinished_of_job")


def back(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _swap(cursor, new="trigger_unfinished_of_job", old="trigger_unfinished_by_job")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0022_tasks_by_their_keys")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, back)],
            state_operations=[
                migrations.RemoveIndex("trigger", "trigger_unfinished_of_job"),
                migrations.AddIndex(
                    "trigger",
                    models.Index(
                        fields=["job", "phase", "held", "origin", "scheduled_for"],
                        condition=models.Q(phase__in=_UNFINISHED),
                        name="trigger_unfinished_by_job",
                    ),
                ),
            ],
        )
    ]

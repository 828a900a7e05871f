"""The indexes by which the run of a task, and all runs below one, are found; made beside those who write.

May be begun again after any of its statements.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_events = import_module("jobs.migrations.0010_event_partitions")
_INDEXES = {
    "workflowrun_one_a_start": "CREATE UNIQUE INDEX CONCURRENTLY workflowrun_one_a_start"
    " ON jobs_workflowrun (trigger_id, task_start) WHERE task_start IS NOT NULL",
    "workflowrun_of_root": "CREATE INDEX CONCURRENTLY workflowrun_of_root ON jobs_workflowrun (root_id)"
    " WHERE root_id IS NOT NULL",
}
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"


def make(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        for name, statement in _INDEXES.items():
            cursor.execute(_IS_VALID, [name])
            is_valid = cursor.fetchone()
            if is_valid == (True,):
                continue
            with _events._patient(cursor):
                if is_valid:
                    cursor.execute(f"DROP INDEX CONCURRENTLY {name}")
                cursor.execute(statement)


def back(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor, _events._patient(cursor):
        for name in _INDEXES:
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0019_runs_of_tasks")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, back)],
            state_operations=[
                migrations.AddConstraint(
                    "workflowrun",
                    models.UniqueConstraint(
                        fields=("trigger_id", "task_start"),
                        condition=models.Q(task_start__isnull=False),
                        name="workflowrun_one_a_start",
                    ),
                ),
                migrations.AddIndex(
                    "workflowrun",
                    models.Index(
                        fields=["root_id"],
                        condition=models.Q(root_id__isnull=False),
                        name="workflowrun_of_root",
                    ),
                ),
            ],
        ),
    ]

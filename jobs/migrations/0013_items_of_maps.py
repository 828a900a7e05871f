"""Task runs are one a task, and of a map one an item: an index in place of another, made beside those who write.

May be begun again after any of its statements.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_events = import_module("jobs.migrations.0010_event_partitions")
_TASKS = models.UniqueConstraint(fields=("run", "task"), name="taskrun_one_a_task")
_ITEMS = models.UniqueConstraint(
    fields=("run", "task", "item"), nulls_distinct=False, name="taskrun_one_an_item"
)
_COLUMNS = {_TASKS.name: "(run_id, task)", _ITEMS.name: "(run_id, task, item) NULLS NOT DISTINCT"}
_STANDS = "SELECT 1 FROM pg_constraint WHERE conname = %s"
# It holds less than the index in its place, so that nobody misses it.
_DROP = "-- squawk-ignore ban-drop-constraint\nALTER TABLE jobs_taskrun DROP CONSTRAINT IF EXISTS {}"
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"


def _ensure(cursor: Any, name: str) -> None:
    cursor.execute(_STANDS, [name])
    if cursor.fetchone():
        return
    cursor.execute(_IS_VALID, [name])
    is_valid = cursor.fetchone()
    if is_valid != (True,):
        with _events._patient(cursor):
            if is_valid:
                cursor.execute(f"DROP INDEX CONCURRENTLY {name}")
            cursor.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON jobs_taskrun {_COLUMNS[name]}")
    cursor.execute(f"ALTER TABLE jobs_taskrun ADD CONSTRAINT {name} UNIQUE USING INDEX {name}")


def make(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _ensure(cursor, _ITEMS.name)
        cursor.execute(_DROP.format(_TASKS.name))


def back(apps: Any, schema_editor: Any) -> None:
    """Items of maps are lost: they are nothing to the release before."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_taskrun WHERE item IS NOT NULL")
        _ensure(cursor, _TASKS.name)
        cursor.execute(_DROP.format(_ITEMS.name))


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0012_waits_and_maps")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, back)],
            state_operations=[
                migrations.RemoveConstraint("taskrun", _TASKS.name),
                migrations.AddConstraint("taskrun", _ITEMS),
            ],
        ),
    ]

"""What waits until its target lets it go, by target and tenant.

The index is made concurrently: claims go on meanwhile. May be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_attempts = import_module("jobs.migrations.0039_failed_attempts")
_INDEX = models.Index(
    condition=models.Q(("parked", True), models.Q(("parked_for", ""), _negated=True)),
    fields=["parked_for", "tenant", "due_at"],
    name="trigger_parked_for",
)


def make(apps: Any, schema_editor: Any) -> None:
    made = _INDEX.create_sql(apps.get_model("jobs", "Trigger"), schema_editor, concurrently=True)
    with schema_editor.connection.cursor() as cursor, _attempts._bounded(cursor, "0"):
        cursor.execute(_attempts._IS_VALID, [_INDEX.name])
        match cursor.fetchone():
            case (True,):
                return
            case (False,):
                cursor.execute(f"DROP INDEX CONCURRENTLY {_INDEX.name}")
        cursor.execute(str(made))


def drop(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {_INDEX.name}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0047_target_rules")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, drop)],
            state_operations=[migrations.AddIndex("trigger", _INDEX)],
        ),
    ]

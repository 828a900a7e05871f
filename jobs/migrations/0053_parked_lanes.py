"""What waits until its target lets it go, by priority too: the most urgent of a tenant is shown first.

The new index takes the place of 0048's, and both are made and dropped concurrently: claims go on meanwhile. May be run
again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_parked_for = import_module("jobs.migrations.0048_parked_for")
_attempts = _parked_for._attempts
_INDEX = models.Index(
    condition=models.Q(("parked", True), models.Q(("parked_for", ""), _negated=True)),
    fields=["parked_for", "tenant", "priority", "due_at"],
    name="trigger_parked_lane",
)


def _ensure(index: models.Index, apps: Any, schema_editor: Any, *, model: str = "Trigger") -> None:
    made = index.create_sql(apps.get_model("jobs", model), schema_editor, concurrently=True)
    with schema_editor.connection.cursor() as cursor, _attempts._bounded(cursor, "0"):
        cursor.execute(_attempts._IS_VALID, [index.name])
        match cursor.fetchone():
            case (True,):
                return
            case (False,):
                cursor.execute(f"DROP INDEX CONCURRENTLY {index.name}")
        cursor.execute(str(made))


def make(apps: Any, schema_editor: Any) -> None:
    _ensure(_INDEX, apps, schema_editor)
    _drop(_parked_for._INDEX, schema_editor)


def back(apps: Any, schema_editor: Any) -> None:
    _ensure(_parked_for._INDEX, apps, schema_editor)
    _drop(_INDEX, schema_editor)


def _drop(index: models.Index, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0052_own_totals")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, back)],
            state_operations=[
                migrations.AddIndex("trigger", _INDEX),
                migrations.RemoveIndex("trigger", "trigger_parked_for"),
            ],
        ),
    ]

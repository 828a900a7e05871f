"""Dead letters that somebody dismissed, with a note, leave the indexes of dead letters.

The columns are added without a rewrite. The new indexes take the place of 0001's and 0059's, and all are made and
dropped concurrently: claims go on meanwhile. May be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_attempts = import_module("jobs.migrations.0039_failed_attempts")
_lanes = import_module("jobs.migrations.0053_parked_lanes")
_DEAD, _LETTER = models.Q(("phase", "dead")), models.Q(("dismissed_at", None), ("phase", "dead"))
_BEFORE = (
    models.Index(condition=_DEAD, fields=["tenant", "-id"], name="trigger_dead"),
    models.Index(condition=_DEAD, fields=["finished_at"], name="trigger_died"),
    models.Index(condition=_DEAD, fields=["tenant", "finished_at"], name="trigger_died_of_tenant"),
)
_AFTER = (
    models.Index(condition=_LETTER, fields=["tenant", "-id"], name="trigger_dead_letter"),
    models.Index(condition=_LETTER, fields=["finished_at"], name="trigger_letter_died"),
    models.Index(condition=_LETTER, fields=["tenant", "finished_at"], name="trigger_letter_of_tenant"),
)
_ADD = """
ALTER TABLE jobs_trigger ADD COLUMN IF NOT EXISTS dismissed_at timestamptz,
    ADD COLUMN IF NOT EXISTS dismissed_by varchar(200) NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS dismissed_note varchar(500) NOT NULL DEFAULT ''
"""
_REMOVE = """
ALTER TABLE jobs_trigger DROP COLUMN IF EXISTS dismissed_at, DROP COLUMN IF EXISTS dismissed_by,
    DROP COLUMN IF EXISTS dismissed_note
"""


def add(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _attempts._briefly(cursor, _ADD)


def remove(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _attempts._briefly(cursor, _REMOVE)


def make(apps: Any, schema_editor: Any) -> None:
    _exchange(_BEFORE, _AFTER, apps, schema_editor)


def back(apps: Any, schema_editor: Any) -> None:
    _exchange(_AFTER, _BEFORE, apps, schema_editor)


def _exchange(old: tuple[models.Index, ...], new: tuple[models.Index, ...], apps: Any, editor: Any) -> None:
    for index in new:
        _lanes._ensure(index, apps, editor)
    for index in old:
        _lanes._drop(index, editor)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0065_ended_jobs")]

    operations = [
        migrations.AlterField(
            model_name="change",
            name="action",
            field=models.CharField(
                choices=[
                    ("created", "Created"),
                    ("updated", "Updated"),
                    ("deleted", "Deleted"),
                    ("run", "Run"),
                    ("replayed", "Replayed"),
                    ("cancelled", "Cancelled"),
                    ("dismissed", "Dismissed"),
                    ("signed_in", "Signed In"),
                    ("signed_out", "Signed Out"),
                    ("sign_in_failed", "Sign In Failed"),
                ],
                max_length=16,
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(add, remove)],
            state_operations=[
                migrations.AddField("trigger", "dismissed_at", models.DateTimeField(blank=True, null=True)),
                migrations.AddField(
                    "trigger",
                    "dismissed_by",
                    models.CharField(blank=True, db_default="", default="", max_length=200),
                ),
                migrations.AddField(
                    "trigger",
                    "dismissed_note",
                    models.CharField(blank=True, db_default="", default="", max_length=500),
                ),
            ],
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, back)],
            state_operations=[
                *(migrations.AddIndex("trigger", index) for index in _AFTER),
                *(migrations.RemoveIndex("trigger", index.name) for index in _BEFORE),
            ],
        ),
    ]

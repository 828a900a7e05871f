"""Pauses that end by themselves, and events that say whether somebody asked for a pause.

No row is rewritten. The constraint is validated and the index is made while claims and edits go on. May be run again
after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

from jobs.models.fields import times_in_range

_attempts = import_module("jobs.migrations.0039_failed_attempts")
_events = import_module("jobs.migrations.0015_events")
_CHECK = models.CheckConstraint(
    condition=models.Q(("paused_until__isnull", True))
    | (models.Q(("status", "paused")) & times_in_range("paused_until")),
    name="job_paused_until_of_a_pause",
)
_INDEX = models.Index(
    fields=("paused_until",),
    condition=models.Q(("paused_until__isnull", False)),
    name="job_paused_until",
)
_ADD = """
ALTER TABLE jobs_job ADD COLUMN IF NOT EXISTS paused_until timestamptz,
    DROP CONSTRAINT IF EXISTS job_paused_until_of_a_pause,
    ADD CONSTRAINT job_paused_until_of_a_pause CHECK (
        paused_until IS NULL OR status = 'paused' AND paused_until BETWEEN '2000-01-01Z' AND '2100-01-01Z') NOT VALID;
"""
#: As in migration 0015, and of a pause whether a caller or an operator asked for it.
_NOTE = (
    _events.NOTE.partition("CREATE TRIGGER")[0]
    .replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    .replace(
        "'reason', nullif(NEW.status_reason, '')",
        "'reason', nullif(NEW.status_reason, ''), 'until', NEW.paused_until,\n                "
        "'requested', CASE WHEN NEW.status = 'paused' AND carillon_actor() ->> 'kind' <> 'engine' THEN true END",
    )
)


def add(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _attempts._briefly(cursor, _ADD)
        with _attempts._bounded(cursor, "0"):
            cursor.execute("ALTER TABLE jobs_job VALIDATE CONSTRAINT job_paused_until_of_a_pause")
            cursor.execute(_attempts._IS_VALID, [_INDEX.name])
            if cursor.fetchone() == (False,):
                cursor.execute(f"DROP INDEX CONCURRENTLY {_INDEX.name}")
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {_INDEX.name} ON jobs_job (paused_until) "
                "WHERE paused_until IS NOT NULL"
            )
        cursor.execute(_NOTE)


def drop(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            _events.NOTE.partition("CREATE TRIGGER")[0].replace(
                "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
            )
        )
        _attempts._briefly(cursor, "ALTER TABLE jobs_job DROP COLUMN IF EXISTS paused_until")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0057_queue_samples")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(add, drop)],
            state_operations=[
                migrations.AddField(
                    "job", "paused_until", models.DateTimeField(blank=True, editable=False, null=True)
                ),
                migrations.AddConstraint("job", _CHECK),
                migrations.AddIndex("job", _INDEX),
            ],
        ),
    ]

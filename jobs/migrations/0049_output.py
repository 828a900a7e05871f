"""What a handler says is kept with its attempt. No row is rewritten or read: what there is has none."""

from typing import Any

from django.db import migrations

_ADD = """
ALTER TABLE jobs_attempt ADD COLUMN IF NOT EXISTS output text,
    ADD CONSTRAINT jobs_attempt_output_bounded CHECK (octet_length(output) <= 65536) NOT VALID;
"""
_DROP = "ALTER TABLE jobs_attempt DROP COLUMN output;"


def add(apps: Any, schema_editor: Any) -> None:
    _briefly(schema_editor, _ADD)


def drop(apps: Any, schema_editor: Any) -> None:
    _briefly(schema_editor, _DROP)


def _briefly(schema_editor: Any, statement: str) -> None:
    """It takes no time but locks the table: claims wait behind it while it waits for the lock."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")
        cursor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0048_parked_for")]
    operations = [migrations.RunPython(add, drop)]

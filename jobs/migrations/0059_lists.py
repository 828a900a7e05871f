"""Dead letters by the time of their death, and what is retried or held by when it is due: the console's lists of them.

Rows come into these indexes only as they die, fail for now or are held, so a firing that goes well touches none. They
are made concurrently: claims go on meanwhile. May be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_lanes = import_module("jobs.migrations.0053_parked_lanes")
_INDEXES = (
    models.Index(condition=models.Q(("phase", "dead")), fields=["finished_at"], name="trigger_died"),
    models.Index(
        condition=models.Q(("phase", "dead")),
        fields=["tenant", "finished_at"],
        name="trigger_died_of_tenant",
    ),
    models.Index(condition=models.Q(("phase", "retrying")), fields=["due_at"], name="trigger_retrying"),
    models.Index(
        condition=models.Q(("held", True), ("phase__in", ("pending", "retrying"))),
        fields=["due_at"],
        name="trigger_held",
    ),
)


def make(apps: Any, schema_editor: Any) -> None:
    for index in _INDEXES:
        _lanes._ensure(index, apps, schema_editor)


def drop(apps: Any, schema_editor: Any) -> None:
    for index in _INDEXES:
        _lanes._drop(index, schema_editor)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0058_paused_until")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, drop)],
            state_operations=[migrations.AddIndex("trigger", index) for index in _INDEXES],
        ),
    ]

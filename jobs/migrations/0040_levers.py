"""Operators' levers: stop dispatch, pause a job type, cap what is in flight of it. Each change is on the audit trail."""

import datetime
from importlib import import_module

from django.db import migrations, models

_BOUNDS = (
    datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC),
)
_ROW = import_module("jobs.migrations.0022_audit_trail").ROW.replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)
# A queue is known by its job type, and the installation has no name.
_NAMED = _ROW.replace(
    "TG_ARGV[0], present ->> 'id',", "TG_ARGV[0], coalesce(present ->> 'id', present ->> 'job_type'),"
).replace("present ->> 'name'), 200)", "present ->> 'name', present ->> 'job_type', TG_ARGV[0]), 200)")
# Of these columns alone: what dispatch writes never comes near the trigger. Rows are made without telling: they change
# nothing.
_TRIGGERS = """
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF stopped_at, stopped_by, stop_reason ON jobs_installation
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('installation', '', '');
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF paused_at, paused_by, pause_reason, max_in_flight ON jobs_queue
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('job_type', 'window rate dispatched drained measured_at', '');
"""
_FIRST = "INSERT INTO jobs_installation (id, stopped_by, stop_reason) VALUES (1, '', '')"
_UNDO = """
DROP TRIGGER jobs_trail_update ON jobs_queue;
DROP TRIGGER jobs_trail_update ON jobs_installation;
"""


def _in_range(name: str) -> models.Q:
    return models.Q(
        (f"{name}__isnull", True),
        models.Q((f"{name}__gte", _BOUNDS[0]), (f"{name}__lte", _BOUNDS[1])),
        _connector="OR",
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0039_failed_attempts")]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                (
                    "id",
                    models.SmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("stopped_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("stopped_by", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("stop_reason", models.CharField(blank=True, default="", editable=False, max_length=500)),
            ],
            options={
                "verbose_name_plural": "dispatch",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="installation_is_one_row"),
                    models.CheckConstraint(
                        condition=_in_range("stopped_at"), name="installation_times_between_2000_and_2100"
                    ),
                ]
            },
        ),
        migrations.AlterModelOptions(name="queue", options={"verbose_name": "job type"}),
        migrations.AddField("queue", "max_in_flight", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField(
            "queue",
            "pause_reason",
            models.CharField(db_default="", default="", editable=False, max_length=500),
        ),
        migrations.AddField(
            "queue", "paused_at", models.DateTimeField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            "queue", "paused_by", models.CharField(db_default="", default="", editable=False, max_length=200)
        ),
        migrations.AddIndex(
            "queue",
            models.Index(
                condition=models.Q(("paused_at__isnull", False)), fields=["job_type"], name="queue_paused"
            ),
        ),
        migrations.AddConstraint(
            "queue",
            models.CheckConstraint(
                condition=models.Q(
                    ("max_in_flight__isnull", True), ("max_in_flight__gte", 1), _connector="OR"
                ),
                name="queue_max_in_flight_positive",
            ),
        ),
        migrations.AddConstraint(
            "queue",
            models.CheckConstraint(
                condition=_in_range("paused_at"), name="queue_paused_between_2000_and_2100"
            ),
        ),
        migrations.AlterField(
            "change",
            "kind",
            models.CharField(
                choices=[
                    ("job", "Job"),
                    ("job_type", "Job Type"),
                    ("tenant", "Tenant"),
                    ("api_key", "API key"),
                    ("secret", "Secret"),
                    ("user", "operator"),
                    ("group", "Group"),
                    ("installation", "Installation"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunSQL(_FIRST, migrations.RunSQL.noop),
        migrations.RunSQL(_NAMED + _TRIGGERS, _UNDO + _ROW),
    ]

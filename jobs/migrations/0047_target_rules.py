"""Operators' rules for targets: rate, concurrency, pause. Each change is on the audit trail."""

import datetime

import django.contrib.postgres.fields
from django.db import migrations, models

_TIMES = models.Q(
    ("paused_at__isnull", True),
    models.Q(
        ("paused_at__gte", datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)),
        ("paused_at__lte", datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)),
    ),
    _connector="OR",
)
_TRIGGER = """
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OR DELETE ON jobs_targetrule
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('target', 'regex', '');
"""
_UNDO = "DROP TRIGGER jobs_trail_rows ON jobs_targetrule;"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0046_edits_and_paces")]

    operations = [
        # It takes no time but locks the table: claims wait behind it while it waits for the lock.
        migrations.RunSQL("SET LOCAL lock_timeout = '2s'", migrations.RunSQL.noop),
        # First, as dispatch locks triggers before it reads the installation. Its default is kept beside the table, which is not rewritten.
        migrations.AddField(
            "trigger",
            "parked_for",
            models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
        migrations.CreateModel(
            name="TargetRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255, unique=True)),
                ("regex", models.CharField(editable=False, max_length=1000)),
                ("rate_per_second", models.FloatField(blank=True, null=True)),
                ("max_in_flight", models.PositiveIntegerField(blank=True, null=True)),
                ("paused_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("paused_by", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("pause_reason", models.CharField(blank=True, default="", editable=False, max_length=500)),
            ],
            options={
                "verbose_name": "target",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rate_per_second__isnull", True),
                            models.Q(("rate_per_second__gte", 0), ("rate_per_second__lte", 100_000.0)),
                            _connector="OR",
                        ),
                        name="target_rate_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_in_flight__isnull", True),
                            models.Q(("max_in_flight__gte", 1), ("max_in_flight__lte", 1_000_000)),
                            _connector="OR",
                        ),
                        name="target_max_in_flight_in_range",
                    ),
                    models.CheckConstraint(condition=_TIMES, name="target_paused_between_2000_and_2100"),
                ],
            },
        ),
        migrations.AddField(
            "installation",
            "targets_changed",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255),
                db_default=[],
                default=list,
                editable=False,
                size=None,
            ),
        ),
        migrations.AddField(
            "installation",
            "targets_version",
            models.PositiveIntegerField(db_default=0, default=0, editable=False),
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
                    ("trigger", "Trigger"),
                    ("operation", "Operation"),
                    ("user", "operator"),
                    ("group", "Group"),
                    ("installation", "Installation"),
                    ("target", "Target"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunSQL(_TRIGGER, _UNDO),
    ]

"""How much waited and ran by job type over time, as the leader sees it, for charts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0056_forecast")]

    operations = [
        migrations.CreateModel(
            name="QueueSample",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "step_seconds",
                        "job_type",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("step_seconds", models.PositiveIntegerField()),
                ("job_type", models.CharField(max_length=63)),
                ("at", models.DateTimeField()),
                ("due", models.PositiveIntegerField()),
                ("parked", models.PositiveIntegerField()),
                ("queued", models.PositiveIntegerField()),
                ("running", models.PositiveIntegerField()),
                ("slots", models.PositiveIntegerField()),
                ("lag_seconds", models.FloatField()),
            ],
        ),
        # The present steps are written again and again.
        migrations.RunSQL("ALTER TABLE jobs_queuesample SET (fillfactor = 50);", migrations.RunSQL.noop),
    ]

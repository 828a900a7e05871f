"""Processes report what they counted, and beats add it up (ADR 37).

The table is not logged: a row lives for some seconds, and nothing of the engine depends on it. To compress a row would
cost more than to write it.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_unfinished_by_origin")]
    operations = [
        migrations.CreateModel(
            name="ActivityReport",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("minute", models.DateTimeField()),
                ("size", models.IntegerField()),
                ("counts", models.TextField()),
                ("own", models.TextField()),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE jobs_activityreport SET UNLOGGED, SET (toast_tuple_target = 8160)",
            migrations.RunSQL.noop,
        ),
    ]

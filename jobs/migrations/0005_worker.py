"""The workers that are there, for ``explain`` and the console."""

import datetime

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_dispatch_gates")]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                (
                    "queues",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), size=None),
                ),
                ("concurrency", models.PositiveIntegerField()),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("seen_at__isnull", True),
                            models.Q(
                                ("seen_at__gte", datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)),
                                ("seen_at__lte", datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)),
                            ),
                            _connector="OR",
                        ),
                        name="worker_times_between_2000_and_2100",
                    )
                ],
            },
        ),
    ]

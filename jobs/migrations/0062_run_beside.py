"""A run now may be asked to ignore overlap: its origin says so. Choices alone; the table is left as it is."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0060_operation_reason")]

    operations = [
        migrations.AlterField(
            model_name="trigger",
            name="origin",
            field=models.CharField(
                choices=[
                    ("schedule", "Schedule"),
                    ("catchup", "Catchup"),
                    ("run_now", "Run Now"),
                    ("run_beside", "Run now, beside others"),
                    ("backfill", "Backfill"),
                ],
                default="schedule",
                max_length=16,
            ),
        ),
    ]

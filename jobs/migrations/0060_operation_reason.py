"""Why an operation pauses, and how many matched when it was confirmed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0059_lists")]

    operations = [
        migrations.AddField(
            "operation", "reason", models.CharField(blank=True, db_default="", default="", max_length=500)
        ),
        migrations.AddField("operation", "expected", models.PositiveBigIntegerField(null=True)),
    ]

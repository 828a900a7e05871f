"""What an operation replays is part of the trace of its caller. The column is null, so no row is written anew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0049_output")]
    operations = [
        migrations.AddField(
            "operation", "trace", models.CharField(editable=False, max_length=568, null=True)
        ),
    ]

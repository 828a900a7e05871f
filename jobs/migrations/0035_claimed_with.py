"""An attempt's ``companions`` takes the name that the API has for it."""

from django.db import migrations

_RENAME = "ALTER TABLE jobs_attempt RENAME COLUMN {} TO {};"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_rate_limit_bypassed")]
    operations = [
        migrations.RunSQL(
            _RENAME.format("companions", "claimed_with"), _RENAME.format("claimed_with", "companions")
        )
    ]

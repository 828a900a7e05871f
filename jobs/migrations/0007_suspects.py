"""Who was in hand, with how many others, when a process died: so that a crash is charged to its cause alone."""

from django.db import migrations, models

# The default is what a worker of the version before writes: its triggers are judged as if each had been alone.
COMPANIONS = "ALTER TABLE jobs_attempt ADD COLUMN companions integer NOT NULL DEFAULT 0;"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_catchup_outlives_edits")]

    operations = [
        migrations.AddField(
            model_name="trigger", name="suspect", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.RunSQL(COMPANIONS, "ALTER TABLE jobs_attempt DROP COLUMN companions;"),
    ]

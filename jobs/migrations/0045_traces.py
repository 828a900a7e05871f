"""The trace of whoever asked for a trigger is kept with it. The columns are null, so no row is written anew."""

from django.db import migrations, models

_TRACE = models.CharField(blank=True, max_length=568, null=True)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0044_actions_on_the_trail")]
    operations = [
        # It takes no time but locks the table: claims wait behind it while it waits for the lock.
        migrations.RunSQL("SET LOCAL lock_timeout = '2s'", migrations.RunSQL.noop),
        migrations.AddField("trigger", "trace", _TRACE),
        migrations.AddField("catchup", "trace", _TRACE),
    ]

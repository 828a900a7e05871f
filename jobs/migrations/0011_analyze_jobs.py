"""What share of jobs is hidden (0009) is known to the planner at once.

Autovacuum analyzes the table again when a tenth of it has changed; until then a new column would be taken for one that
is seldom null, and whoever lists jobs for one who finds almost none.
"""

from django.db import migrations


class Migration(migrations.Migration):
    # Beside those who write, and after 0009 let go of the table.
    atomic = False
    dependencies = [("jobs", "0010_event_partitions")]
    operations = [migrations.RunSQL("ANALYZE jobs_job (workflow_id)", migrations.RunSQL.noop)]

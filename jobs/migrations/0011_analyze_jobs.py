"""What share of jobs is hidden (0009) is known to the planner at once.

Autovacuum analyzes the table again when a tenth of it has changed; until then a new column would be taken for one that
is seldom null, and whoever lists jobs for one who finds almost none. An empty table is left alone: one that was never
analyzed is taken for larger than it is, which is right for what is about to grow.
"""

from django.db import migrations

_ANALYZE = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM jobs_job) THEN
        ANALYZE jobs_job (workflow_id);
    END IF;
END $$
"""


class Migration(migrations.Migration):
    # Beside those who write, and after 0009 let go of the table.
    atomic = False
    dependencies = [("jobs", "0010_event_partitions")]
    operations = [migrations.RunSQL(_ANALYZE, migrations.RunSQL.noop)]

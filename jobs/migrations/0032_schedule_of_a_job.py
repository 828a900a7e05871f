"""A job's schedule as its timeline holds it: told once, for jobs that are written and for those that are there.

The timeline's reader is ``jobs.store.jobs.schedule_then``.
"""

from django.db import migrations

_CREATE = """
CREATE FUNCTION carillon_schedule(job jobs_job) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'schedule_type', job.schedule_type, 'cron_expression', job.cron_expression,
        'cron_dialect', job.cron_dialect, 'timezone', job.timezone,
        'interval_seconds', extract(epoch FROM job."interval"), 'run_at', job.run_at, 'starts_at', job.starts_at,
        'ends_at', job.ends_at, 'dst_policy', job.dst_policy, 'created_at', job.created_at)
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0031_trail_checkpoints")]
    operations = [migrations.RunSQL(_CREATE, "DROP FUNCTION carillon_schedule(jobs_job)")]

"""One beat leads all jobs (ADR 25): shards had leases of their own, and each job a partition."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_schedule_of_a_job")]
    operations = [
        migrations.RunSQL("DELETE FROM jobs_lease WHERE name <> 'leader'", migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="job", name="job_next_fire"),
        migrations.RemoveConstraint(model_name="job", name="job_partition_below_256"),
        migrations.RemoveField(model_name="job", name="partition_key"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("next_fire_at__isnull", False), ("status", "active")),
                fields=["next_fire_at"],
                name="job_next_fire",
            ),
        ),
    ]

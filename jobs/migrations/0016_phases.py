"""What indexes know of a state, so that a claim touches none of them; room on the page for it to stay where it was."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0015_events'),
        ('tenants', '0002_quota_ranges'),
    ]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE jobs_trigger SET (fillfactor = 50)", "ALTER TABLE jobs_trigger RESET (fillfactor)"
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_lane',
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_in_flight',
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_unfinished_of_job',
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_catchup_waiting',
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_dead',
        ),
        migrations.RemoveIndex(
            model_name='trigger',
            name='trigger_key_in_flight',
        ),
        migrations.AddField(
            model_name='trigger',
            name='phase',
            field=models.GeneratedField(db_persist=True, expression=models.Case(models.When(state__in=['pending'], then=models.Value('pending')), models.When(state__in=['retrying'], then=models.Value('retrying')), models.When(state__in=['queued', 'running'], then=models.Value('in_flight')), models.When(state__in=['dead'], then=models.Value('dead')), models.When(state__in=['succeeded', 'skipped', 'cancelled'], then=models.Value('ended'))), output_field=models.CharField(max_length=16)),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('held', False), ('phase__in', ('pending', 'retrying'))), fields=['tenant', 'job_type', 'priority', 'due_at'], name='trigger_lane'),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('phase', 'in_flight')), fields=['tenant', 'job_type'], name='trigger_in_flight'),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('phase__in', ('pending', 'retrying', 'in_flight'))), fields=['job', 'phase'], name='trigger_unfinished_of_job'),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('phase', 'in_flight'), models.Q(('concurrency_key', ''), _negated=True)), fields=['tenant', 'concurrency_key'], name='trigger_key_in_flight'),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('origin__in', ('catchup', 'backfill')), ('phase', 'pending')), fields=['tenant'], name='trigger_catchup_waiting'),
        ),
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('phase', 'dead')), fields=['tenant', '-id'], name='trigger_dead'),
        ),
    ]

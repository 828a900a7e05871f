"""Workflows with a schedule: the hidden job whose firings begin runs, what overlap counts of them, and due cancels."""

from django.db import migrations, models

# What runs of a workflow that its schedule's job is held to (dispatch, release, explain). A firing that begins a run is
# in flight itself until its worker has finished it: it counts once.
_RUNNING = """
CREATE FUNCTION carillon_running_runs(workflow uuid) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM jobs_workflowrun r
    WHERE r.workflow_id = workflow AND r.state = 'running'
      AND (SELECT t.id FROM jobs_trigger t
           WHERE t.id = r.trigger_id AND t.phase IN ('in_flight', 'retrying')) IS NULL
$$;
"""
# Of a hidden job nothing is told but by its workflow: migration 0006 has the columns.
_JOB_COLUMNS = (
    "name, labels, job_type, payload, schedule_type, cron_expression, cron_dialect, timezone, interval, run_at, starts_at, "
    "ends_at, dst_policy, jitter, priority, timeout, delivery, retry_policy, overlap_policy, max_concurrent, "
    "concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup, status, notify, pause_after_failures, "
    "deleted_at, delete_after"
)
_TRAIL = f"""
CREATE OR REPLACE TRIGGER jobs_trail_update AFTER UPDATE OF {_JOB_COLUMNS} ON jobs_job
    FOR EACH ROW WHEN (@shown@NOT (OLD.status = 'active' AND NEW.status = 'completed'))
    EXECUTE FUNCTION carillon_trail(
        'job', 'next_fire_at partition_key watched target expires_at deleted_at', 'payload notify');
CREATE OR REPLACE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OF name, version, deleted_at ON jobs_workflow
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('workflow', '@ignored@', '');
"""
_OF_SHOWN = _TRAIL.replace("@shown@", "NEW.workflow_id IS NULL AND ").replace("@ignored@", "schedule_job_id")
#: As it was before, for a schema that goes back.
_OF_ALL = _TRAIL.replace("@shown@", "").replace("@ignored@", "")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_workflows_tell")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="labels",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="workflow",
            name="schedule_job_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="workflowrun",
            name="cancel_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.AddField(
            model_name="workflowrun",
            name="origin",
            field=models.CharField(
                choices=[
                    ("schedule", "schedule"),
                    ("catchup", "catchup"),
                    ("run_now", "run now"),
                    ("run_beside", "run beside"),
                    ("backfill", "backfill"),
                    ("workflow", "workflow"),
                ],
                db_default="run_now",
                default="run_now",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="workflowrun",
            name="trigger_id",
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name="workflowversion",
            name="deadline",
            field=models.DurationField(null=True),
        ),
        migrations.CreateModel(
            name="DueCancel",
            fields=[
                ("run_id", models.UUIDField(primary_key=True, serialize=False)),
                ("tenant_id", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("reason", models.CharField(max_length=32)),
            ],
            options={"indexes": [models.Index(fields=["at"], name="duecancel_at")]},
        ),
        migrations.RunSQL(_RUNNING, "DROP FUNCTION carillon_running_runs(uuid)"),
        migrations.RunSQL(_OF_SHOWN, _OF_ALL),
    ]

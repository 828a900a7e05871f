"""The event feed, and the trigger by which the table of jobs tells of its changes."""

import jobs.models.fields
from django.db import migrations, models

# As for the tally (0009): by statement where rows come in bulk, by row where one changes. Neither meets a step of the
# materializer, which sets none of these columns. A job with one firing is not heard of as completed: that firing's end
# says it, and it is the path of a success.
NOTE = """
CREATE FUNCTION carillon_note_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        SELECT tenant_id, carillon_clock(), 'job.created', id, jsonb_build_object(
            'job_name', name, 'job_type', split_part(job_type, '@', 1), 'status', status, 'version', version)
        FROM changed WHERE deleted_at IS NULL;
    ELSE
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        VALUES (NEW.tenant_id, carillon_clock(), CASE
                WHEN NEW.deleted_at IS NOT NULL THEN 'job.deleted'
                WHEN NEW.status = OLD.status THEN 'job.updated'
                WHEN NEW.status = 'active' THEN 'job.resumed'
                ELSE 'job.' || NEW.status END,
            NEW.id, jsonb_strip_nulls(jsonb_build_object(
                'job_name', NEW.name, 'job_type', split_part(NEW.job_type, '@', 1), 'status', NEW.status,
                'version', NEW.version, 'reason', nullif(NEW.status_reason, ''))));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_note_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_note_jobs();
CREATE TRIGGER jobs_note_update AFTER UPDATE OF status, version, deleted_at ON jobs_job
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND (NEW.status <> OLD.status OR NEW.version <> OLD.version
                                                   OR NEW.deleted_at IS NOT NULL)
                       AND NOT (NEW.status = 'completed' AND NEW.schedule_type IN ('once', 'immediate')))
    EXECUTE FUNCTION carillon_note_jobs();
"""
UNDO = """
DROP TRIGGER jobs_note_insert ON jobs_job;
DROP TRIGGER jobs_note_update ON jobs_job;
DROP FUNCTION carillon_note_jobs();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_labels"), ("tenants", "0004_all_events")]

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.BigAutoField(primary_key=True, serialize=False),
                ),
                (
                    "xid",
                    jobs.models.fields.TransactionId(
                        db_default=models.Func(function="pg_current_xact_id"), editable=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=32)),
                ("job_id", models.UUIDField()),
                ("trigger_id", models.UUIDField(null=True)),
                ("data", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "xid", "id"], name="event_of_tenant"),
                    models.Index(fields=["xid", "id"], name="event_in_order"),
                ],
            },
        ),
        migrations.RunSQL(NOTE, UNDO),
    ]

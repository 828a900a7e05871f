"""Runs, replays, cancels and operations on the audit trail."""

from django.db import migrations, models

# An operation is told of when it is begun and when it ends, however many slices it takes.
_OPERATIONS = """
CREATE FUNCTION carillon_trail_operation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    actor jsonb := carillon_actor();
    told jsonb := jsonb_build_object('filter', jsonb_build_array(NULL, NEW.filter));
BEGIN
    IF TG_OP = 'UPDATE' THEN
        told := told || jsonb_build_object(
            'status', jsonb_build_array('running', CASE WHEN NEW.cancelled THEN 'cancelled' ELSE 'finished' END),
            'done', jsonb_build_array(NULL, NEW.done), 'refused', jsonb_build_array(NULL, NEW.refused));
    END IF;
    INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(), NEW.tenant_id, 'operation', NEW.id::text, NEW.verb,
            CASE TG_OP WHEN 'INSERT' THEN 'created' ELSE 'updated' END,
            left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told);
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_insert AFTER INSERT ON jobs_operation
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_operation();
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF finished_at ON jobs_operation
    FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL)
    EXECUTE FUNCTION carillon_trail_operation();
"""
_UNDO = "DROP FUNCTION carillon_trail_operation() CASCADE;"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0040_levers")]

    operations = [
        migrations.AlterField(
            "change",
            "kind",
            models.CharField(
                choices=[
                    ("job", "Job"),
                    ("job_type", "Job Type"),
                    ("tenant", "Tenant"),
                    ("api_key", "API key"),
                    ("secret", "Secret"),
                    ("trigger", "Trigger"),
                    ("operation", "Operation"),
                    ("user", "operator"),
                    ("group", "Group"),
                    ("installation", "Installation"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            "change",
            "action",
            models.CharField(
                choices=[
                    ("created", "Created"),
                    ("updated", "Updated"),
                    ("deleted", "Deleted"),
                    ("run", "Run"),
                    ("replayed", "Replayed"),
                    ("cancelled", "Cancelled"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunSQL(_OPERATIONS, _UNDO),
    ]

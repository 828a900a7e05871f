"""Workflows and their runs tell of themselves in the event feed, and the oldest run that goes on is found by an index.

By row triggers, so that it is complete whichever process or function of the database writes. ``job_id`` of such an
event is the workflow's id: the column takes no null, and processes of 0.1.0 could not show one. The API shows it as
``workflow_id``.

May be begun again after any of its statements.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_events = import_module("jobs.migrations.0010_event_partitions")
_OF_WORKFLOWS = """
CREATE OR REPLACE FUNCTION carillon_note_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
    VALUES (NEW.tenant_id, carillon_clock(), CASE
                WHEN TG_OP = 'INSERT' THEN 'workflow.created'
                WHEN NEW.deleted_at IS NOT NULL THEN 'workflow.deleted'
                ELSE 'workflow.updated' END,
            NEW.id, jsonb_build_object('workflow_name', NEW.name, 'version', NEW.version));
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER jobs_workflow_note_insert AFTER INSERT ON jobs_workflow
    FOR EACH ROW EXECUTE FUNCTION carillon_note_workflow();
CREATE OR REPLACE TRIGGER jobs_workflow_note_update AFTER UPDATE OF version, deleted_at ON jobs_workflow
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND (NEW.version <> OLD.version OR NEW.deleted_at IS NOT NULL))
    EXECUTE FUNCTION carillon_note_workflow();
"""
# The end of a run clears its pause, too: that is no resumption. A run that failed names the first ten tasks that did.
_OF_RUNS = """
CREATE OR REPLACE FUNCTION carillon_note_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
    SELECT NEW.tenant_id, carillon_clock(), 'workflow_run.' || CASE
               WHEN TG_OP = 'INSERT' THEN 'started'
               WHEN NEW.state <> 'running' THEN NEW.state
               WHEN OLD.state <> 'running' THEN 'retried'
               WHEN NEW.paused_at IS NOT NULL THEN 'paused'
               ELSE 'resumed' END,
           NEW.workflow_id, jsonb_strip_nulls(jsonb_build_object(
               'workflow_name', w.name, 'workflow_run_id', NEW.id, 'version', v.number,
               'scheduled_for', NEW.scheduled_for,
               'seconds', extract(epoch FROM NEW.finished_at - NEW.created_at)::float,
               'failed_tasks', CASE NEW.state WHEN 'failed' THEN (
                   SELECT jsonb_agg(f.key) FROM (
                       SELECT t.key FROM jobs_workflowtask t
                       WHERE t.version_id = NEW.version_id AND EXISTS (
                           SELECT FROM jobs_taskrun r
                           WHERE r.run_id = NEW.id AND r.task = t.number AND r.item IS NULL
                             AND r.state IN ('failed', 'cancelled'))
                       ORDER BY t.number LIMIT 10) f) END))
    FROM jobs_workflow w JOIN jobs_workflowversion v ON v.id = NEW.version_id
    WHERE w.id = NEW.workflow_id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER jobs_workflowrun_note_insert AFTER INSERT ON jobs_workflowrun
    FOR EACH ROW EXECUTE FUNCTION carillon_note_run();
CREATE OR REPLACE TRIGGER jobs_workflowrun_note_update AFTER UPDATE OF state, paused_at ON jobs_workflowrun
    FOR EACH ROW WHEN (NEW.state <> OLD.state
                       OR NEW.state = 'running' AND (NEW.paused_at IS NULL) <> (OLD.paused_at IS NULL))
    EXECUTE FUNCTION carillon_note_run();
"""
_UNDO = "DROP FUNCTION {} CASCADE"
_INDEX = "CREATE INDEX CONCURRENTLY workflowrun_oldest ON jobs_workflowrun (id) WHERE state = 'running'"
_DROP_INDEX = "DROP INDEX CONCURRENTLY workflowrun_oldest"
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('workflowrun_oldest')"


def make_index(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_IS_VALID)
        is_valid = cursor.fetchone()
        if is_valid == (True,):
            return
        with _events._patient(cursor):
            if is_valid:
                cursor.execute(_DROP_INDEX)
            cursor.execute(_INDEX)


def drop_index(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor, _events._patient(cursor):
        cursor.execute(_DROP_INDEX)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0013_items_of_maps")]
    operations = [
        migrations.RunSQL(_OF_WORKFLOWS, _UNDO.format("carillon_note_workflow()")),
        migrations.RunSQL(_OF_RUNS, _UNDO.format("carillon_note_run()")),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make_index, drop_index)],
            state_operations=[
                migrations.AddIndex(
                    "workflowrun",
                    models.Index(
                        fields=["id"], condition=models.Q(state="running"), name="workflowrun_oldest"
                    ),
                ),
            ],
        ),
    ]

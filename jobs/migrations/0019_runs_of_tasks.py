"""Tasks that are a run of another workflow (ADR 32).

The worker that such a task's trigger comes to begins the run, and the trigger ends. The task ends as the run does: at the
commit that ended it. Migration 0020 makes the indexes.
"""

from importlib import import_module

from django.db import migrations, models

_NOTE_BEFORE: str = import_module("jobs.migrations.0009_workflows")._NOTE.split("CREATE TRIGGER")[0]
_VALUE_BEFORE: str = import_module("jobs.migrations.0012_waits_and_maps")._VALUE
_RUNNING_BEFORE: str = import_module("jobs.migrations.0015_workflow_schedules")._RUNNING
# Once the run has begun, its end is the task's, however the trigger ended.
_NOTE = """
CREATE OR REPLACE FUNCTION carillon_note_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    begun text;
BEGIN
    IF NEW.job_type = 'carillon.run' THEN
        -- The trigger and the run may end at once: whoever has this lock second sees the other's end.
        PERFORM FROM jobs_taskrun WHERE id = NEW.id FOR NO KEY UPDATE;
        SELECT state INTO begun FROM jobs_workflowrun WHERE trigger_id = NEW.id AND task_start = NEW.replay_count;
    END IF;
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        state = CASE coalesce(begun, NEW.state)
                WHEN 'succeeded' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
        reason = CASE WHEN begun IS NULL THEN NEW.reason ELSE '' END,
        finished_at = CASE WHEN begun IS NULL THEN NEW.finished_at ELSE carillon_clock() END,
        unsettled = pg_current_xact_id()
    WHERE id = NEW.id AND state = 'started' AND begun IS DISTINCT FROM 'running';
    RETURN NULL;
END $$;
"""
_NOTE_RUN = """
CREATE FUNCTION carillon_note_run_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs_taskrun WHERE id = NEW.trigger_id FOR NO KEY UPDATE;
    -- If the trigger has not ended, its own end comes second. Of an earlier start nothing is to be noted.
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        state = CASE NEW.state WHEN 'succeeded' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
        finished_at = NEW.finished_at, unsettled = pg_current_xact_id()
    WHERE id = NEW.trigger_id AND state = 'started' AND NOT EXISTS (
        SELECT FROM jobs_trigger t
        WHERE t.id = NEW.trigger_id
          AND (t.phase IN ('pending', 'retrying', 'in_flight') OR t.replay_count <> NEW.task_start));
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_workflowrun_note_task AFTER UPDATE OF state ON jobs_workflowrun FOR EACH ROW
    WHEN (NEW.task_start IS NOT NULL AND NEW.state <> 'running' AND OLD.state = 'running')
    EXECUTE FUNCTION carillon_note_run_of_task();
CREATE CONSTRAINT TRIGGER jobs_workflowrun_settle_tasks AFTER UPDATE OF state ON jobs_workflowrun
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.task_start IS NOT NULL AND NEW.state <> 'running' AND OLD.state = 'running')
    EXECUTE FUNCTION carillon_settle_tasks();
"""
# A path into the result of a task that is a run begins with a task of that run.
_VALUE_EDITS = (
    ("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"),
    ("    source record;\n", "    source record;\n    inner_task uuid;\n"),
    (
        "        IF source.item_count IS NULL THEN\n",
        """        IF source.item_count IS NULL AND source.state = 'succeeded' AND parts[3] IS NOT NULL THEN
            SELECT r.id INTO inner_task
            FROM (SELECT id, version_id FROM jobs_workflowrun
                  WHERE trigger_id = source.id AND task_start IS NOT NULL ORDER BY task_start DESC LIMIT 1) begun
                JOIN jobs_workflowtask k ON k.version_id = begun.version_id AND k.key = parts[3]
                JOIN jobs_taskrun r ON r.run_id = begun.id AND r.task = k.number AND r.item IS NULL;
            IF FOUND THEN
                SELECT found.value, found.too_large INTO value, too_large
                FROM carillon_value(inner_task, array_to_string(ARRAY[parts[3], 'result'] || parts[4:], '.')) found;
                RETURN;
            END IF;
        END IF;
        IF source.item_count IS NULL THEN
""",
    ),
)
# What a schedule's overlap counts: a run that is a task's counts from its beginning.
_RUNNING = _RUNNING_BEFORE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(
    "      AND (SELECT t.id", "      AND (r.task_start IS NOT NULL OR (SELECT t.id"
).replace("IS NULL\n$$", "IS NULL)\n$$")


def _value() -> str:
    text = _VALUE_BEFORE
    for before, after in _VALUE_EDITS:
        if text.count(before) != 1:
            raise ValueError(f"carillon_value of migration 0012 has not one line {before.strip()!r}.")
        text = text.replace(before, after)
    return text


def _again(text: str) -> str:
    return text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_traces_of_runs")]
    operations = [
        migrations.AddField("workflowrun", "task_start", models.PositiveIntegerField(null=True)),
        migrations.AddField("workflowrun", "depth", models.PositiveSmallIntegerField(db_default=0, default=0)),
        migrations.AddField("workflowrun", "root_id", models.UUIDField(null=True)),
        migrations.RunSQL(_NOTE, _again(_NOTE_BEFORE)),
        migrations.RunSQL(_NOTE_RUN, "DROP FUNCTION carillon_note_run_of_task() CASCADE"),
        migrations.RunSQL(_value(), _again(_VALUE_BEFORE)),
        migrations.RunSQL(_RUNNING, _again(_RUNNING_BEFORE)),
    ]

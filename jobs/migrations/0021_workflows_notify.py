"""A workflow keeps who is told of how its runs end, and the event of a run that was cancelled says why.

The audit trail tells that ``notify`` changed and never its values, as of jobs.
"""

from importlib import import_module

from django.db import migrations, models

_NOTE_RUN: str = import_module("jobs.migrations.0014_workflows_tell")._OF_RUNS.partition(
    "CREATE OR REPLACE TRIGGER"
)[0]
_SECONDS = "               'seconds',"
_REASON = "               'reason', CASE NEW.state WHEN 'cancelled' THEN nullif(NEW.cancel_reason, '') END,\n"
_TRAIL = """
CREATE OR REPLACE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OF name, version, @watched@deleted_at ON jobs_workflow
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('workflow', 'schedule_job_id', '@veiled@');
"""
_WITH_NOTIFY = _TRAIL.replace("@watched@", "notify, ").replace("@veiled@", "notify")
_WITHOUT = _TRAIL.replace("@watched@", "").replace("@veiled@", "")


def _with_reason() -> str:
    if _NOTE_RUN.count(_SECONDS) != 1:
        raise ValueError(f"carillon_note_run of migration 0014 has not one line {_SECONDS.strip()!r}.")
    return _NOTE_RUN.replace(_SECONDS, _REASON + _SECONDS)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_runs_of_tasks_found")]
    operations = [
        migrations.AddField(
            "workflow",
            "notify",
            models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.RunSQL(_WITH_NOTIFY, _WITHOUT),
        migrations.RunSQL(_with_reason(), _NOTE_RUN),
    ]

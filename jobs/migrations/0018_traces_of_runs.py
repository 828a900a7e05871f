"""A run of a workflow keeps the trace of the call that asked for it, and its tasks' triggers get it as they start.

The function that starts them (migration 0012) copies the one column more. Processes without this migration's code
begin runs without a trace.
"""

from importlib import import_module

from django.db import migrations, models

_WITHOUT: str = import_module("jobs.migrations.0012_waits_and_maps")._SETTLE_RUN
_COPIED = (
    ("           v.max_parallel INTO run\n", "           v.max_parallel, r.trace INTO run\n"),
    ("created_at, announced_at, workflow_run_id)\n", "created_at, announced_at, workflow_run_id, trace)\n"),
    ("carillon_clock(), carillon_clock(), due\n", "carillon_clock(), carillon_clock(), due, run.trace\n"),
    ("        priority = excluded.priority\n", "        priority = excluded.priority, trace = excluded.trace\n"),
)


def _with_traces() -> str:
    text = _WITHOUT
    for before, after in _COPIED:
        if text.count(before) != 1:
            raise ValueError(f"carillon_settle_run of migration 0012 has not one line {before.strip()!r}.")
        text = text.replace(before, after)
    return text


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_bulk_runs_valid")]
    operations = [
        migrations.AddField(
            "workflowrun",
            "trace",
            models.TextField(blank=True, editable=False, null=True),
        ),
        migrations.RunSQL(_with_traces(), _WITHOUT),
    ]

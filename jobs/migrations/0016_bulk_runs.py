"""Operations on runs of workflows: their verbs are known, and which of them may keep a pace."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

_VERBS = [
    *("pause", "resume", "cancel", "delete", "edit", "replay", "cancel_triggers"),
    *("pause_runs", "resume_runs", "cancel_runs", "retry_runs"),
]
_PACED = ("resume", "replay", "resume_runs", "retry_runs")


# The wider constraint takes its place in the same transaction.
_DROP = "-- squawk-ignore ban-drop-constraint\nALTER TABLE jobs_operation DROP CONSTRAINT {}"
_VERBS_BEFORE = """
ALTER TABLE jobs_operation ADD CONSTRAINT operation_verb_known CHECK (
    verb IN ('pause', 'resume', 'cancel', 'delete', 'edit', 'replay', 'cancel_triggers')) NOT VALID
"""
_PACE_BEFORE = """
ALTER TABLE jobs_operation ADD CONSTRAINT operation_pace_in_range CHECK (
    next_at IS NULL AND per_second IS NULL
    OR next_at IS NOT NULL AND per_second >= 0.1 AND per_second <= 1000 AND verb IN ('resume', 'replay')) NOT VALID
"""


def _without(name: str, before: str) -> migrations.SeparateDatabaseAndState:
    return migrations.SeparateDatabaseAndState(
        database_operations=[migrations.RunSQL(_DROP.format(name), before)],
        state_operations=[migrations.RemoveConstraint("operation", name)],
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_workflow_schedules")]
    operations = [
        _without("operation_verb_known", _VERBS_BEFORE),
        AddConstraintNotValid(
            "operation",
            models.CheckConstraint(condition=models.Q(("verb__in", _VERBS)), name="operation_verb_known"),
        ),
        _without("operation_pace_in_range", _PACE_BEFORE),
        AddConstraintNotValid(
            "operation",
            models.CheckConstraint(
                condition=models.Q(
                    models.Q(("next_at__isnull", True), ("per_second__isnull", True)),
                    models.Q(
                        ("next_at__isnull", False),
                        ("per_second__gte", 0.1),
                        ("per_second__lte", 1000),
                        ("verb__in", _PACED),
                    ),
                    _connector="OR",
                ),
                name="operation_pace_in_range",
            ),
        ),
    ]

"""Operations on runs of workflows: their verbs are known, and which of them may keep a pace."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

_VERBS = [
    *("pause", "resume", "cancel", "delete", "edit", "replay", "cancel_triggers"),
    *("pause_runs", "resume_runs", "cancel_runs", "retry_runs"),
]
_PACED = ("resume", "replay", "resume_runs", "retry_runs")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_workflow_schedules")]
    operations = [
        migrations.RemoveConstraint("operation", "operation_verb_known"),
        AddConstraintNotValid(
            "operation",
            models.CheckConstraint(condition=models.Q(("verb__in", _VERBS)), name="operation_verb_known"),
        ),
        migrations.RemoveConstraint("operation", "operation_pace_in_range"),
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

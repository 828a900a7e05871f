"""Operation: one verb for everything that matches a filter, done slice by slice (DESIGN §10)."""

from django.db import models
from django.db.models import Q

from jobs.models.fields import new_id, one_of, times_in_range
from jobs.telemetry.traces.w3c import MAX_KEPT_LENGTH
from tenants.models import Tenant

#: What is done to jobs, what to triggers, and what to runs of workflows.
JOB_VERBS = ("pause", "resume", "cancel", "delete", "edit")
TRIGGER_VERBS = ("replay", "cancel_triggers")
RUN_VERBS = ("pause_runs", "resume_runs", "cancel_runs", "retry_runs")
#: Which of them may be slowed down, and to how many items a second.
PACED_VERBS = ("resume", "replay", "resume_runs", "retry_runs")
SLOWEST, FASTEST = 0.1, 1000


class Operation(models.Model):
    """Unfinished until ``finished_at``. Each slice moves ``cursor``, the last id it looked at, in its own transaction.

    What was created after the operation is left alone. ``refusals`` holds the first of what could not be done. With
    ``all_or_nothing`` it is ``checking`` until it has looked at all items, and then begins again if none was refused.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    verb = models.CharField(max_length=16)
    filter = models.JSONField()
    #: Of an edit: the merge patch.
    changes = models.JSONField(null=True)
    #: Of a pause: why, as the jobs then say.
    reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    #: How many matched when it was confirmed; null: nobody counted.
    expected = models.PositiveBigIntegerField(null=True)
    all_or_nothing = models.BooleanField(default=False, db_default=False)
    checking = models.BooleanField(default=False, db_default=False)
    checked = models.PositiveBigIntegerField(default=0, db_default=0)
    #: Items a second at most; the next one not before ``next_at``, by the database's clock.
    per_second = models.FloatField(null=True)
    next_at = models.DateTimeField(null=True)
    cursor = models.UUIDField()
    done = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    refusals = models.JSONField(default=list)
    cancelled = models.BooleanField(default=False)
    #: The actor in whose name the beats do it (store.trail); null: nobody said.
    asked_by = models.JSONField(null=True, editable=False)
    #: The trace of its caller: what it replays is part of that.
    trace = models.CharField(max_length=MAX_KEPT_LENGTH, null=True, editable=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=one_of("verb", JOB_VERBS + TRIGGER_VERBS + RUN_VERBS), name="operation_verb_known"
            ),
            models.CheckConstraint(
                condition=times_in_range("created_at", "updated_at", "next_at", "paused_at", "finished_at"),
                name="operation_times_between_2000_and_2100",
            ),
            models.CheckConstraint(
                condition=Q(verb="edit", changes__isnull=False)
                | (~Q(verb="edit") & Q(changes__isnull=True, all_or_nothing=False, checking=False)),
                name="operation_changes_of_an_edit",
            ),
            models.CheckConstraint(
                condition=Q(per_second__isnull=True, next_at__isnull=True)
                | Q(
                    per_second__gte=SLOWEST,
                    per_second__lte=FASTEST,
                    next_at__isnull=False,
                    verb__in=PACED_VERBS,
                ),
                name="operation_pace_in_range",
            ),
        )
        indexes = (
            # store/sql/operations.sql: take; the one that has waited longest.
            models.Index(
                fields=("updated_at",), condition=Q(finished_at__isnull=True), name="operation_unfinished"
            ),
            # GET /operations: newest first, by cursor.
            models.Index(fields=("tenant", "-id"), name="operation_of_tenant"),
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.filter}"

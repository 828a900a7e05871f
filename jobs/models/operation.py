"""Operation: one verb for everything that matches a filter, done slice by slice (DESIGN §10)."""

from django.db import models
from django.db.models import Q

from jobs.models.fields import new_id, one_of, times_in_range
from jobs.telemetry.traces.w3c import MAX_KEPT_LENGTH
from tenants.models import Tenant

#: The verbs for jobs, for triggers, and for runs of workflows.
JOB_VERBS = ("pause", "resume", "cancel", "delete", "edit")
TRIGGER_VERBS = ("replay", "cancel_triggers")
RUN_VERBS = ("pause_runs", "resume_runs", "cancel_runs", "retry_runs")
#: The verbs that may be slowed down, and the bounds of their pace in items a second.
PACED_VERBS = ("resume", "replay", "resume_runs", "retry_runs")
SLOWEST, FASTEST = 0.1, 1000


class Operation(models.Model):
    """Unfinished until ``finished_at``. Each slice moves ``cursor``, the last id it looked at, in its own transaction.

    Items that were created after the operation are left alone. ``refusals`` holds the first refused items. With
    ``all_or_nothing`` the operation is ``checking`` until it has looked at all items. Then it begins again if no item
    was refused.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    verb = models.CharField(max_length=16)
    filter = models.JSONField()
    #: For an edit: the merge patch.
    changes = models.JSONField(null=True)
    #: For a pause: the reason, which the paused jobs then show.
    reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    #: How many items matched when it was confirmed; null: they were not counted.
    expected = models.PositiveBigIntegerField(null=True)
    all_or_nothing = models.BooleanField(default=False, db_default=False)
    checking = models.BooleanField(default=False, db_default=False)
    checked = models.PositiveBigIntegerField(default=0, db_default=0)
    #: At most so many items a second; the next item waits until ``next_at``, by the database's clock.
    per_second = models.FloatField(null=True)
    next_at = models.DateTimeField(null=True)
    cursor = models.UUIDField()
    done = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    refusals = models.JSONField(default=list)
    cancelled = models.BooleanField(default=False)
    #: The actor in whose name the beats carry it out (store.trail); null: no actor was named.
    asked_by = models.JSONField(null=True, editable=False)
    #: The trace of its caller: the triggers that it replays are part of that trace.
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
            # store/sql/operations.sql: take; the operation that has waited longest.
            models.Index(
                fields=("updated_at",), condition=Q(finished_at__isnull=True), name="operation_unfinished"
            ),
            # GET /operations: newest first, by cursor.
            models.Index(fields=("tenant", "-id"), name="operation_of_tenant"),
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.filter}"

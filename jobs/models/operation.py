"""Operation: one verb for everything that matches a filter, done slice by slice (DESIGN §10)."""

from django.db import models
from django.db.models import Q

from jobs.models.fields import new_id, one_of, times_in_range
from tenants.models import Tenant

#: What is done to jobs, and what to triggers.
JOB_VERBS = ("pause", "resume", "cancel", "delete")
TRIGGER_VERBS = ("replay",)


class Operation(models.Model):
    """Unfinished until ``finished_at``. Each slice moves ``cursor``, the last id it looked at, in its own transaction.

    What was created after the operation is left alone. ``refusals`` holds the first of what could not be done.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    verb = models.CharField(max_length=16)
    filter = models.JSONField()
    cursor = models.UUIDField()
    done = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    refusals = models.JSONField(default=list)
    cancelled = models.BooleanField(default=False)
    #: The actor in whose name the beats do it (store.trail); null: nobody said.
    asked_by = models.JSONField(null=True, editable=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=one_of("verb", JOB_VERBS + TRIGGER_VERBS), name="operation_verb_known"
            ),
            models.CheckConstraint(
                condition=times_in_range("created_at", "updated_at", "finished_at"),
                name="operation_times_between_2000_and_2100",
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

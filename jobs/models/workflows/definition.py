"""Workflow, its immutable versions, and the graph of each, which a run follows (ADR 32)."""

from django.db import models
from django.db.models import Q

from jobs.core.workflows.states import Condition
from jobs.models.fields import choices, new_id, one_of, times_in_range
from jobs.models.job import Job
from tenants.models import Tenant


class Workflow(models.Model):
    """A graph of tasks. ``version`` is the number of its present version; every edit makes the next."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=200, db_collation="C")
    version = models.PositiveIntegerField(default=1)
    labels = models.JSONField(default=dict, db_default={}, blank=True)
    #: The recipients of notices about the ends of its runs (jobs.actions.notices); null: as the tenant says.
    notify = models.JSONField(null=True, blank=True, editable=False)
    #: The hidden job whose firings begin runs, the same for all versions; null: the workflow has no schedule.
    schedule_job_id = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "name"),
                condition=Q(deleted_at__isnull=True),
                name="workflow_name_unique_among_living",
            ),
            models.CheckConstraint(
                condition=times_in_range("created_at", "updated_at", "deleted_at"),
                name="workflow_times_in_range",
            ),
        )
        indexes = (
            # store/sql/workflows.sql: purge_deleted.
            models.Index(
                fields=("deleted_at",), condition=Q(deleted_at__isnull=False), name="workflow_deleted"
            ),
            # GET /workflows.
            models.Index(fields=("tenant", "-id"), condition=Q(deleted_at=None), name="workflow_of_tenant"),
        )

    def __str__(self) -> str:
        return self.name


class WorkflowVersion(models.Model):
    """A definition as it was written. Runs stay on the version they began with. Append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    definition = models.JSONField()
    task_count = models.PositiveIntegerField()
    #: After a task failed, only tasks that handle failures start (``on_failure: halt``).
    halts = models.BooleanField()
    #: How many of its tasks may be started at once in one run; null: any number.
    max_parallel = models.PositiveIntegerField(null=True)
    #: A run that has not ended is cancelled this long after its beginning; null: never.
    deadline = models.DurationField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("workflow", "number"), name="workflowversion_numbered"),
        )

    def __str__(self) -> str:
        return f"version {self.number}"


class WorkflowTask(models.Model):
    """A task of one version, with the hidden job that its triggers belong to."""

    pk = models.CompositePrimaryKey("version_id", "number")
    version = models.ForeignKey(
        WorkflowVersion, on_delete=models.PROTECT, related_name="tasks", db_index=False
    )
    number = models.PositiveIntegerField()
    key = models.CharField(max_length=63)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="+")
    #: Whether all of its incoming edges must be met, or only one.
    needs_all = models.BooleanField()
    incoming = models.PositiveIntegerField()
    #: It only waits, so it takes no place of ``max_parallel``.
    waits = models.BooleanField(default=False, db_default=False)
    #: For a map: the reference to its list, and how many of its items may be started at once.
    maps_over = models.CharField(max_length=1000, blank=True, default="", db_default="")
    map_parallel = models.PositiveIntegerField(null=True)

    def __str__(self) -> str:
        return self.key


class WorkflowEdge(models.Model):
    """An edge of one version, by the numbers of its tasks."""

    pk = models.CompositePrimaryKey("version_id", "before", "after")
    version = models.ForeignKey(
        WorkflowVersion, on_delete=models.PROTECT, related_name="edges", db_index=False
    )
    before = models.PositiveIntegerField()
    after = models.PositiveIntegerField()
    condition = models.CharField(max_length=16, choices=choices(Condition))

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=one_of("condition", Condition), name="workflowedge_condition_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"

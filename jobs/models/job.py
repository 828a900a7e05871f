"""Job: the work, its schedule, and its policies (DESIGN §5)."""

from datetime import timedelta

from django.db import models
from django.db.models import Q

from jobs.core.policies import CronDialect, Delivery, DstPolicy, MisfirePolicy, OverlapPolicy, Priority
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus
from jobs.models.fields import choices, new_id, one_of, times_in_range
from tenants.models import Tenant

PRIORITIES = [(int(priority), priority.label) for priority in Priority]


class _Listed(models.Manager["Job"]):
    """Jobs that people made: the hidden jobs of workflows are in no list, count or search."""

    def get_queryset(self) -> models.QuerySet["Job"]:
        return super().get_queryset().filter(workflow_id__isnull=True)


class Job(models.Model):
    """A definition. Holds no counter that a firing would have to update.

    ``next_fire_at`` is the next instant *not yet materialized*; null when the schedule has no more instants.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    #: Ordered by its bytes, so that the index that keeps names unique also finds names with a prefix, in order.
    name = models.CharField(max_length=200, db_collation="C")
    labels = models.JSONField(default=dict, db_default={}, blank=True)
    job_type = models.CharField(max_length=63)
    payload = models.JSONField(default=dict, blank=True)
    #: The host that the handler calls, if any: ``host`` or ``host:port``, the unit of the per-target rate limit.
    target = models.CharField(max_length=255, blank=True, default="", db_default="", editable=False)

    schedule_type = models.CharField(max_length=16, choices=choices(ScheduleType))
    cron_expression = models.CharField(max_length=100, blank=True)
    cron_dialect = models.CharField(
        max_length=16, choices=choices(CronDialect), default=CronDialect.UNIX, db_default=CronDialect.UNIX
    )
    timezone = models.CharField(max_length=64, default="UTC")
    interval = models.DurationField(null=True, blank=True)
    run_at = models.DateTimeField(null=True, blank=True)
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    dst_policy = models.CharField(max_length=16, choices=choices(DstPolicy), default=DstPolicy.VIXIE)
    jitter = models.DurationField(default=timedelta())

    priority = models.SmallIntegerField(choices=PRIORITIES, default=int(Priority.MEDIUM))
    timeout = models.DurationField()
    delivery = models.CharField(max_length=16, choices=choices(Delivery), default=Delivery.AT_LEAST_ONCE)
    retry_policy = models.JSONField(default=dict, blank=True)
    overlap_policy = models.CharField(
        max_length=16, choices=choices(OverlapPolicy), default=OverlapPolicy.SKIP
    )
    max_concurrent = models.PositiveIntegerField(default=1)
    concurrency_key = models.CharField(max_length=200, blank=True)
    misfire_policy = models.CharField(
        max_length=16, choices=choices(MisfirePolicy), default=MisfirePolicy.FIRE_ONCE
    )
    misfire_grace = models.DurationField(default=timedelta(seconds=60))
    catchup_window = models.DurationField(default=timedelta(seconds=3600))
    max_catchup = models.PositiveIntegerField(default=100)

    status = models.CharField(max_length=16, choices=choices(JobStatus), default=JobStatus.ACTIVE)
    status_reason = models.CharField(max_length=500, blank=True)
    #: For a pause that ends by itself: when it ends (jobs.actions.bulk.pauses).
    paused_until = models.DateTimeField(null=True, blank=True, editable=False)
    #: Recipients and events of its notices (jobs.actions.notices); null: as the tenant says. ``watched``: notices are
    #: sent on successes or retries.
    notify = models.JSONField(null=True, blank=True)
    watched = models.BooleanField(default=False, db_default=False, editable=False)
    pause_after_failures = models.PositiveIntegerField(null=True, blank=True)
    #: How long it is kept after it was completed or cancelled; null: as long as the installation keeps such jobs.
    delete_after = models.DurationField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    next_fire_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)
    #: For an ended job: when it is deleted (store/sql/jobs.sql: expire).
    expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: For the hidden job of a workflow's task or schedule (ADR 32): the workflow. Such a job is counted nowhere.
    workflow_id = models.UUIDField(null=True, editable=False)

    objects = _Listed()
    #: With the hidden jobs of workflows.
    with_hidden = models.Manager()

    class Meta:
        #: For the console: an operator that looks after jobs need not see the data that jobs receive and return.
        permissions = (("view_payload", "Can see payloads, results, answers and outputs"),)
        constraints = (
            # A soft-deleted job frees its name.
            models.UniqueConstraint(
                fields=("tenant", "name"),
                condition=Q(deleted_at__isnull=True),
                name="job_name_unique_among_living",
            ),
            # Triggers refer to this pair, so that each has the tenant of its job.
            models.UniqueConstraint(fields=("id", "tenant"), name="job_and_its_tenant"),
            models.CheckConstraint(condition=one_of("status", JobStatus), name="job_status_known"),
            models.CheckConstraint(
                condition=one_of("schedule_type", ScheduleType), name="job_schedule_type_known"
            ),
            models.CheckConstraint(
                condition=one_of("overlap_policy", OverlapPolicy), name="job_overlap_known"
            ),
            models.CheckConstraint(
                condition=one_of("misfire_policy", MisfirePolicy), name="job_misfire_known"
            ),
            models.CheckConstraint(condition=one_of("delivery", Delivery), name="job_delivery_known"),
            models.CheckConstraint(condition=one_of("dst_policy", DstPolicy), name="job_dst_policy_known"),
            models.CheckConstraint(
                condition=one_of("cron_dialect", CronDialect), name="job_cron_dialect_known"
            ),
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=3), name="job_priority_known"),
            models.CheckConstraint(condition=Q(timeout__gt=timedelta()), name="job_timeout_positive"),
            models.CheckConstraint(condition=Q(max_concurrent__gte=1), name="job_max_concurrent_positive"),
            models.CheckConstraint(
                condition=(
                    Q(schedule_type="cron") & ~Q(cron_expression="")
                    | Q(schedule_type="interval", interval__gt=timedelta())
                    | Q(schedule_type="once", run_at__isnull=False)
                    | Q(schedule_type="immediate")
                ),
                name="job_schedule_complete",
            ),
            models.CheckConstraint(
                condition=times_in_range(
                    "run_at", "starts_at", "ends_at", "next_fire_at", "created_at", "updated_at", "deleted_at"
                ),
                name="job_times_between_2000_and_2100",
            ),
            models.CheckConstraint(
                condition=Q(paused_until__isnull=True) | Q(status="paused") & times_in_range("paused_until"),
                name="job_paused_until_of_a_pause",
            ),
        )
        indexes = (
            # store/sql/jobs.sql: take_due — the jobs whose next instant enters the look-ahead window.
            models.Index(
                fields=("next_fire_at",),
                condition=Q(status="active", next_fire_at__isnull=False),
                name="job_next_fire",
            ),
            # store/sql/jobs.sql: complete — active jobs with nothing left to materialize.
            models.Index(
                fields=("id",),
                condition=Q(status="active", next_fire_at__isnull=True),
                name="job_exhausted",
            ),
            # GET /jobs and the admin's list by tenant: newest first, by cursor.
            models.Index(
                fields=("tenant", "-id"), condition=Q(deleted_at__isnull=True), name="job_of_tenant"
            ),
            # GET /jobs?status=paused and its like, newest first. Active jobs are not in this index, so their firings
            # are not slowed down.
            models.Index(
                fields=("tenant", "status", "-id"),
                condition=Q(deleted_at__isnull=True, status__in=("paused", "completed", "cancelled")),
                name="job_at_rest",
            ),
            # store/sql/jobs.sql: pauses_over — pauses that end by themselves, the first to end first.
            models.Index(
                fields=("paused_until",),
                condition=Q(paused_until__isnull=False),
                name="job_paused_until",
            ),
            # store/sql/jobs.sql: expire — ended jobs, the first to be deleted first.
            models.Index(
                fields=("expires_at",),
                condition=Q(expires_at__isnull=False, deleted_at__isnull=True),
                name="job_expires",
            ),
            # store/sql/jobs.sql: purge — deleted jobs, the first deleted first.
            models.Index(fields=("deleted_at",), condition=Q(deleted_at__isnull=False), name="job_deleted"),
        )

    def __str__(self) -> str:
        return self.name


class JobLabel(models.Model):
    """One label of a living job. It finds the jobs that have the label, newest first, however many or few they are.

    Kept by database triggers of ``jobs_job`` (its ``labels`` are the truth). Read through the primary key alone.
    """

    pk = models.CompositePrimaryKey("tenant_id", "key", "value", "job_id")
    tenant_id = models.BigIntegerField()
    key = models.CharField(max_length=63, db_collation="C")
    value = models.CharField(max_length=63, db_collation="C")
    job_id = models.UUIDField()

    def __str__(self) -> str:
        return f"{self.key}={self.value}"

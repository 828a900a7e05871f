"""CatchUp: past firings that must still be decided or run. SkippedRange: many skipped firings (DESIGN §9)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from jobs.core.policies import MisfirePolicy
from jobs.core.states import SKIP_REASONS
from jobs.models.fields import choices, new_id, one_of, times_in_range
from jobs.models.job import Job
from jobs.telemetry.traces.w3c import MAX_KEPT_LENGTH


class SkippedRange(models.Model):
    """Consecutive firings that were skipped for one reason, kept as one record so that no outage floods the ledger.

    Counts every instant that the job's schedule names from ``from_at`` to ``until_at``, both included.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Kept with the tenant by one foreign key (migration 0002): no row is of another tenant than its job.
    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="skipped_ranges", db_index=False, db_constraint=False
    )
    tenant_id = models.BigIntegerField()
    job_version = models.PositiveIntegerField()
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    count = models.PositiveBigIntegerField()
    reason = models.CharField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=one_of("reason", SKIP_REASONS), name="skippedrange_reason_known"
            ),
            models.CheckConstraint(
                condition=Q(until_at__gte=models.F("from_at"), count__gte=1), name="skippedrange_not_empty"
            ),
            models.CheckConstraint(
                condition=times_in_range("from_at", "until_at", "created_at"),
                name="skippedrange_times_in_range",
            ),
        )
        indexes = (
            # GET /jobs/{id}/triggers, the audit, and store/sql/catchup.sql: extend.
            models.Index(fields=("job", "-until_at"), name="skippedrange_of_job"),
        )

    def __str__(self) -> str:
        return f"{self.count} firings skipped ({self.reason})"


_DECIDED = Q(policy="fire_all") | Q(cursor__gte=models.F("until_at"))
_UNDECIDED = Q(finished_at__isnull=True) & (~Q(reason="") | ~_DECIDED)
_TO_RUN = Q(finished_at__isnull=True, reason="") & _DECIDED


class CatchUp(models.Model):
    """Past firings of one job that must still be decided or run: after an outage, or because a backfill asks for them.

    ``cursor`` is the last instant dealt with; every firing after it up to ``until_at`` is still to come. ``tail`` holds
    the newest instants seen so far; the policy lets the last of them run. Done when ``finished_at`` is set.

    Later edits of the job change nothing here: the schedule is that of ``job_version``, and ``policy``,
    ``window_start`` and ``max_catchup`` keep their values of that time. With a ``reason`` no more firings of it run,
    under any policy: the rest is recorded as skipped for that reason.
    """

    class Origin(models.TextChoices):
        OUTAGE = "outage"
        BACKFILL = "backfill"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Kept with the tenant by one foreign key (migration 0002): no row is of another tenant than its job.
    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="catch_ups", db_index=False, db_constraint=False
    )
    tenant_id = models.BigIntegerField()
    job_version = models.PositiveIntegerField()
    origin = models.CharField(max_length=16, choices=Origin.choices)
    policy = models.CharField(max_length=16, choices=choices(MisfirePolicy))
    reason = models.CharField(max_length=32, blank=True, default="", db_default="")
    #: No older firing runs. Like ``max_catchup`` it is null for a backfill, and for a catch-up that began before these
    #: columns existed.
    window_start = models.DateTimeField(null=True, blank=True)
    max_catchup = models.PositiveIntegerField(null=True, blank=True)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    cursor = models.DateTimeField()
    tail = ArrayField(models.DateTimeField(), default=list)
    #: For a backfill: the trace of the caller that asked for it. Its triggers are part of that trace.
    trace = models.CharField(max_length=MAX_KEPT_LENGTH, null=True, blank=True)
    #: How many firings a backfill comprises.
    expected = models.PositiveBigIntegerField(null=True, blank=True)
    fired = models.PositiveBigIntegerField(default=0)
    skipped = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=one_of("policy", MisfirePolicy), name="catchup_policy_known"),
            models.CheckConstraint(
                condition=Q(reason="") | one_of("reason", SKIP_REASONS), name="catchup_reason_known"
            ),
            models.CheckConstraint(
                condition=times_in_range(
                    "from_at", "until_at", "cursor", "window_start", "created_at", "finished_at"
                ),
                name="catchup_times_in_range",
            ),
        )
        indexes = (
            # store/sql/catchup.sql: take_undecided — catch-ups that wait for their policy's decision, oldest first.
            models.Index(fields=("id",), condition=_UNDECIDED, name="catchup_undecided"),
            # store/sql/catchup.sql: waiting, take_decided — catch-ups that must run, by tenant, oldest first.
            models.Index(fields=("tenant_id", "id"), condition=_TO_RUN, name="catchup_to_run"),
            # actions: the catch-up of one job, newest first; edit and cancel end it.
            models.Index(fields=("job", "-id"), name="catchup_of_job"),
        )

    def __str__(self) -> str:
        return f"{self.origin} of {self.from_at:%Y-%m-%d %H:%M:%S} to {self.until_at:%Y-%m-%d %H:%M:%S}"

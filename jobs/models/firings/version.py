"""JobVersion: past schedules of a job (DESIGN §9)."""

from django.db import models

from jobs.models.fields import new_id, times_in_range
from jobs.models.job import Job


class JobVersion(models.Model):
    """From ``valid_from`` on, the job had this schedule and status. An audit of past firings walks these rows.

    ``schedule`` holds the columns of the job that decide its instants. Append-only: a row is added whenever these
    columns or the status change.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Kept with the tenant by one foreign key (migration 0002): no row is of another tenant than its job.
    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="versions", db_index=False, db_constraint=False
    )
    tenant_id = models.BigIntegerField()
    version = models.PositiveIntegerField()
    status = models.CharField(max_length=16)
    schedule = models.JSONField()
    valid_from = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=times_in_range("valid_from"), name="jobversion_times_in_range"),
        )
        indexes = (
            # manage.py audit_firings: a job's past, in order.
            models.Index(fields=("job", "valid_from", "id"), name="jobversion_of_job"),
        )

    def __str__(self) -> str:
        return f"version {self.version} ({self.status}) from {self.valid_from:%Y-%m-%d %H:%M:%S}"

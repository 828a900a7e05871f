"""PullType: a job type that a tenant declared."""

from datetime import timedelta

from django.db import models

from jobs.core.pull import MAX_NAME_LENGTH
from jobs.models.fields import times_in_range
from tenants.models import Tenant


class PullType(models.Model):
    """A job type that a tenant declared over the API: its handler is a pull worker, anywhere and in any language.

    ``job_type`` is the name that its jobs and triggers carry (``jobs.core.pull``). ``payload_schema`` is a JSON Schema
    that the payloads of its jobs must fit; it is checked when they are written.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    job_type = models.CharField(max_length=63, unique=True, editable=False)
    description = models.CharField(max_length=500, blank=True)
    timeout = models.DurationField()
    max_in_flight = models.PositiveIntegerField(null=True, blank=True)
    payload_schema = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="pull_type_name_unique"),
            models.CheckConstraint(
                condition=models.Q(timeout__gt=timedelta()), name="pull_type_timeout_positive"
            ),
            models.CheckConstraint(
                condition=models.Q(max_in_flight__isnull=True) | models.Q(max_in_flight__gte=1),
                name="pull_type_max_in_flight_positive",
            ),
            models.CheckConstraint(
                condition=times_in_range("created_at", "updated_at"),
                name="pull_type_times_between_2000_and_2100",
            ),
        )

    def __str__(self) -> str:
        return self.job_type

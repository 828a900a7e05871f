"""Tallies: sums that database triggers keep, so that quotas and usage need not count a table's rows. They are exact.

Activity: events that each process counts and reports once a second, for people and alarms. The leader adds the
reports up. It is exact as long as no process is killed, and nothing of the engine depends on it.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.core.activity import KINDS


class Tally(models.Model):
    """A tenant's sum is the sum of its stripes. Nearly every connection writes to a stripe of its own, so that
    connections that write at once do not wait for each other.
    """

    pk = models.CompositePrimaryKey("tenant_id", "stripe")
    tenant_id = models.BigIntegerField()
    stripe = models.PositiveSmallIntegerField()

    class Meta:
        abstract = True


class JobTally(Tally):
    """How many living jobs a tenant has, kept by database triggers of ``jobs_job`` (migration 0005)."""

    jobs = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.jobs} of {self.tenant_id}"


class AnswerTally(Tally):
    """How many bytes of answers a tenant has, kept by database triggers of ``jobs_answer`` (migration 0005)."""

    bytes = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bytes} of {self.tenant_id}"


class Activity(models.Model):
    """Counts of a tenant and a job type; null: it did not happen."""

    tenant_id = models.BigIntegerField()
    job_type = models.CharField(max_length=63)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.job_type} of {self.tenant_id}"


for _kind in KINDS:
    Activity.add_to_class(_kind, models.BigIntegerField(null=True))


class ActivityReport(models.Model):
    """What a process counted in a second, until the leader adds it up. Not logged: when Postgres crashes, or a standby
    takes over, the reports of the last seconds are gone (migration 0024).

    ``minute``: by the database's clock when it was written. ``size``: how many keys it holds. ``counts``: JSON, a list
    of ActivityMinute's columns; ``own``: JSON, what the process counted of itself, by name and labels.
    """

    id = models.BigAutoField(primary_key=True)
    minute = models.DateTimeField()
    size = models.IntegerField()
    counts = models.TextField()
    own = models.TextField()

    def __str__(self) -> str:
        return f"{self.size} counts of {self.minute:%Y-%m-%d %H:%M}"


class ActivityMinute(Activity):
    """Counts of one minute, by the database's clock when they were reported. Partitioned by day (migration 0003). Rows
    that count any trouble have an index of their own (migration 0003; store/sql/overview.sql: troubles).
    """

    pk = models.CompositePrimaryKey("minute", "tenant_id", "job_type")
    minute = models.DateTimeField()


class ActivityHour(Activity):
    """The sums of an hour's minutes. Partitioned by week (migration 0003)."""

    pk = models.CompositePrimaryKey("hour", "tenant_id", "job_type")
    hour = models.DateTimeField()


class ActivityTotal(Activity):
    """The totals that ``/metrics`` shows as counters. ``tenant_id`` 0 stands for all tenants that have no series of
    their own, and -1 for all tenants.
    """

    pk = models.CompositePrimaryKey("tenant_id", "job_type")


class QueueSample(models.Model):
    """How many triggers of a job type ('': of all types) waited and ran, and the slots of the workers that serve it.

    The leader looks every half a minute. A row holds, for the step of ``step_seconds`` that begins ``at``, the highest
    figures of all looks; ``slots`` is from the last look. Kept for charts; nothing depends on it.
    """

    pk = models.CompositePrimaryKey("step_seconds", "job_type", "at")
    step_seconds = models.PositiveIntegerField()
    job_type = models.CharField(max_length=63)
    at = models.DateTimeField()
    due = models.PositiveIntegerField()
    parked = models.PositiveIntegerField()
    queued = models.PositiveIntegerField()
    running = models.PositiveIntegerField()
    slots = models.PositiveIntegerField()
    lag_seconds = models.FloatField()

    def __str__(self) -> str:
        return f"{self.job_type} at {self.at:%Y-%m-%d %H:%M:%S}"


class OwnTotal(models.Model):
    """Counts that all processes together report about themselves in ``/metrics``. ``name`` is the metric's name,
    ``labels`` are the values of its labels, and ``kind`` names the quantity that is counted (``jobs.core.activity``:
    TIMES, SECONDS_SUM, a bucket).
    """

    pk = models.CompositePrimaryKey("name", "labels", "kind")
    name = models.CharField(max_length=63)
    labels = ArrayField(models.CharField(max_length=200))
    kind = models.CharField(max_length=16)
    count = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.name} {self.labels}: {self.count} {self.kind}"


class MetricTenant(models.Model):
    """A tenant that has series of its own in ``/metrics`` (``CARILLON_METRICS_TENANTS``)."""

    tenant_id = models.BigIntegerField(primary_key=True)
    named_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.tenant_id)


class KeptForecast(models.Model):
    """How many firings fall into each quarter of an hour from ``since`` on, by the schedules as they were at
    ``made_at``: of one tenant, or of all for tenant 0. ``peaks``: the firings in the quarter's fullest minute, which
    ``peak_minutes`` names. The leader computes it again every quarter of an hour, or less often if that takes long;
    nothing depends on it.
    """

    tenant_id = models.BigIntegerField(primary_key=True)
    made_at = models.DateTimeField()
    since = models.DateTimeField()
    total = models.BigIntegerField()
    jobs = models.BigIntegerField()
    counts = ArrayField(models.BigIntegerField())
    peaks = ArrayField(models.BigIntegerField())
    peak_minutes = ArrayField(models.SmallIntegerField())

    class Meta:
        db_table = "jobs_forecast"
        indexes = (
            # store/insight/forecast.py: busiest — the tenants with the most firings.
            models.Index(fields=("-total",), name="forecast_by_total"),
        )

    def __str__(self) -> str:
        return f"{self.total} of {self.tenant_id}"

"""Queue: what dispatchers know of one job type's queue together (DESIGN §8). Installation: whether they dispatch.
TargetRule: which hosts jobs may call, and how fast. Breaker: which are down. Message: what the broker cannot take.
PullType: a job type that a tenant declared."""

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.core.levers.breaker import BreakerState
from jobs.core.levers.targets import MAX_IN_FLIGHT, MAX_PATTERN_LENGTH, MAX_RATE
from jobs.core.pull import MAX_NAME_LENGTH
from jobs.models.fields import times_in_range
from tenants.models import Tenant


class Queue(models.Model):
    """Locked by whoever dispatches this job type, so that its caps stay exact with several dispatchers.

    ``window`` is how many triggers may be queued at once: about what the workers take in the target wait, at ``rate``
    claims a second. ``dispatched`` counts ever; ``drained`` is what of it had left the queue at ``measured_at``.

    The other columns are operators' (``store/sql/levers.sql``): while ``paused_at`` is set nothing of the type starts;
    ``max_in_flight`` bounds what is in flight beside the handler's own, the lower one counts.
    """

    job_type = models.CharField(max_length=63, primary_key=True)
    window = models.PositiveIntegerField()
    rate = models.FloatField(default=0)
    dispatched = models.BigIntegerField(default=0)
    drained = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_by = models.CharField(max_length=200, default="", db_default="", editable=False)
    pause_reason = models.CharField(max_length=500, default="", db_default="", editable=False)
    max_in_flight = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = "job type"
        indexes = (
            # store/sql/execution.sql: claim.
            models.Index(
                fields=("job_type",), condition=models.Q(paused_at__isnull=False), name="queue_paused"
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(max_in_flight__isnull=True) | models.Q(max_in_flight__gte=1),
                name="queue_max_in_flight_positive",
            ),
            models.CheckConstraint(
                condition=times_in_range("paused_at"), name="queue_paused_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return self.job_type


class Installation(models.Model):
    """At most one row, of what operators decided for all tenants together.

    While ``stopped_at`` is set, nothing is dispatched for any tenant and no queued trigger is claimed.
    """

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    stopped_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: The operator's name, or the API key's prefix and name.
    stopped_by = models.CharField(max_length=200, blank=True, default="", editable=False)
    stop_reason = models.CharField(max_length=500, blank=True, default="", editable=False)
    #: How often operators have changed rules for targets: dispatchers read these again when it differs. Then, the
    #: patterns of the rules changed since a beat last saw to what had waited for them (``store/dispatch/targets.py``).
    targets_version = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    targets_changed = ArrayField(
        models.CharField(max_length=MAX_PATTERN_LENGTH), default=list, db_default=[], editable=False
    )

    class Meta:
        verbose_name_plural = "dispatch"
        constraints = (
            models.CheckConstraint(condition=models.Q(id=1), name="installation_is_one_row"),
            models.CheckConstraint(
                condition=times_in_range("stopped_at"), name="installation_times_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return "dispatch is stopped" if self.stopped_at else "dispatch runs"


class TargetRule(models.Model):
    """A rule for all targets that the pattern ``name`` matches (``jobs.core.levers.targets``).

    A column that is null says nothing. While ``paused_at`` is set nothing starts that calls such a target. ``regex`` is
    the pattern's, for claim.
    """

    name = models.CharField(max_length=MAX_PATTERN_LENGTH, unique=True)
    regex = models.CharField(max_length=1000, editable=False)
    rate_per_second = models.FloatField(null=True, blank=True)
    max_in_flight = models.PositiveIntegerField(null=True, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_by = models.CharField(max_length=200, blank=True, default="", editable=False)
    pause_reason = models.CharField(max_length=500, blank=True, default="", editable=False)

    class Meta:
        verbose_name = "target"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(rate_per_second__isnull=True)
                | models.Q(rate_per_second__gte=0, rate_per_second__lte=MAX_RATE),
                name="target_rate_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(max_in_flight__isnull=True)
                | models.Q(max_in_flight__gte=1, max_in_flight__lte=MAX_IN_FLIGHT),
                name="target_max_in_flight_in_range",
            ),
            models.CheckConstraint(
                condition=times_in_range("paused_at"), name="target_paused_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return self.name


class Breaker(models.Model):
    """How a tenant's calls of one target went of late, where the tenant wants a circuit breaker for each
    (``jobs.core.levers.breaker``). There are rows for targets of which calls failed lately, no others.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    target = models.CharField(max_length=255)
    state = models.CharField(max_length=16, choices=[(state.value, state.value) for state in BreakerState])
    failures = models.PositiveIntegerField()
    successes = models.PositiveIntegerField()
    window_ends_at = models.DateTimeField()
    openings = models.PositiveIntegerField()
    probe_at = models.DateTimeField(null=True)
    probe_id = models.UUIDField(null=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "target"), name="breaker_one_per_target"),
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in BreakerState]),
                name="breaker_state_known",
            ),
            models.CheckConstraint(
                condition=times_in_range("window_ends_at", "probe_at", "changed_at"),
                name="breaker_times_between_2000_and_2100",
            ),
        )
        indexes = (
            # store/sql/breakers.sql: purge; store/sql/metrics.sql: levers.
            models.Index(
                fields=("window_ends_at",), condition=models.Q(state="closed"), name="breaker_closed"
            ),
            models.Index(
                fields=("probe_at",), condition=~models.Q(state="closed"), name="breaker_not_closed"
            ),
        )

    def __str__(self) -> str:
        return f"{self.target}: {self.state}"


class Message(models.Model):
    """A message that waits in Postgres because the broker is away: ``items`` is ``[[trigger id, fence], …]``.

    Only written with ``CARILLON_BROKERLESS_FALLBACK``. Gone as soon as a worker takes it.
    """

    job_type = models.CharField(max_length=63)
    items = models.JSONField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_type}: {len(self.items)} triggers"


class PullType(models.Model):
    """A job type that a tenant declared over the API: its handler is a pull worker, anywhere and in any language.

    ``job_type`` is what its jobs and triggers carry (``jobs.core.pull``). ``payload_schema`` is a JSON Schema that the
    payloads of its jobs have to fit, checked when they are written.
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

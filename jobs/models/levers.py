"""The operators' decisions for all tenants: Installation, whether anything is dispatched; TargetRule, which hosts jobs
may call, and how fast. Breaker: which targets are down (DESIGN §8)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.core.levers.breaker import BreakerState
from jobs.core.levers.targets import MAX_IN_FLIGHT, MAX_PATTERN_LENGTH, MAX_RATE
from jobs.models.fields import times_in_range
from tenants.models import Tenant


class Installation(models.Model):
    """At most one row: the operators' decisions for all tenants together.

    While ``stopped_at`` is set, nothing is dispatched for any tenant and no queued trigger is claimed.
    """

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    stopped_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: The operator's name, or the API key's prefix and name.
    stopped_by = models.CharField(max_length=200, blank=True, default="", editable=False)
    stop_reason = models.CharField(max_length=500, blank=True, default="", editable=False)
    #: How often operators have changed rules for targets: dispatchers read the rules again when this number differs.
    #: ``targets_changed`` holds the patterns of the rules that changed since a beat last handled the triggers that had
    #: waited for them (``store/dispatch/targets.py``).
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

    A column that is null sets no limit. While ``paused_at`` is set, no trigger starts that calls such a target.
    ``regex`` is the pattern as a regular expression, for claim.
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
    """How a tenant's recent calls of one target ended, where the tenant wants a circuit breaker for each target
    (``jobs.core.levers.breaker``). Only targets whose calls failed lately have a row.
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

"""Tenants, their quotas and their API keys (DESIGN §8, §10). No behaviour here: writes live in ``tenants.actions``."""

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use 1 to 63 lower-case letters, digits and inner hyphens.",
)


def between(low: int, high: int) -> list[MinValueValidator | MaxValueValidator]:
    return [MinValueValidator(low), MaxValueValidator(high)]


class Tenant(models.Model):
    """Owner of jobs; a wall for data and a share of the capacity."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        #: Keys are refused and nothing starts; what falls due waits.
        SUSPENDED = "suspended"
        #: Keys work for reading; what falls due is skipped with the reason ``frozen``.
        FROZEN = "frozen"

    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    weight = models.PositiveIntegerField(
        default=100, validators=between(1, 10_000), help_text="Share of the capacity under contention."
    )
    max_in_flight = models.PositiveIntegerField(
        default=1000, validators=between(1, 1_000_000), help_text="Triggers queued or running at once."
    )
    max_jobs = models.PositiveIntegerField(
        default=1_000_000, validators=between(0, 100_000_000), help_text="Living jobs."
    )
    max_payload_bytes = models.PositiveIntegerField(
        default=65_536, validators=between(2, 1_048_576), help_text="Size of one job's payload as JSON."
    )
    rate_per_second = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=between(1, 1_000_000),
        help_text="Dispatches a second; empty: no limit.",
    )
    max_backfill = models.PositiveIntegerField(
        default=10_000, validators=between(1, 10_000_000), help_text="Past firings one backfill may ask for."
    )
    rate_burst = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=between(1, 1_000_000),
        help_text="Dispatches at once; empty: one second's.",
    )
    webhook_secret = models.CharField(
        max_length=120, editable=False, help_text="Signs this tenant's webhooks (Standard Webhooks, whsec_…)."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=("active", "suspended", "frozen")), name="tenant_status_known"
            ),
            models.CheckConstraint(
                condition=Q(weight__gte=1, weight__lte=10_000), name="tenant_weight_between_1_and_10000"
            ),
            models.CheckConstraint(condition=Q(max_in_flight__gte=1), name="tenant_max_in_flight_positive"),
        )

    def __str__(self) -> str:
        return self.slug


class ApiKey(models.Model):
    """A service's credential, ``ck_<prefix>_<secret>``. Only a hash of the secret is kept.

    The secret carries 256 random bits, so a fast hash is enough: there is nothing to guess.
    """

    class Scope(models.TextChoices):
        READ = "read"
        WRITE = "write"
        WORKER = "worker"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=128, editable=False)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"ck_{self.prefix}_… ({self.name})"

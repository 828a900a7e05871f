"""Tenants, their quotas and their API keys (DESIGN §8, §10). No behaviour here: writes live in ``tenants.actions``."""

import re
from datetime import UTC, datetime

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use 1 to 63 lower-case letters, digits and inner hyphens.",
)

SECRET_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z",  # ``$`` also matches before a line break at the end
    "Use 1 to 100 letters, digits, underscores, dots and hyphens, a letter or digit first.",
)


def is_secret_name(text: str) -> bool:
    return re.fullmatch(SECRET_NAME.regex, text) is not None


#: Between these lies every stored time.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

#: What each quota may be, both ends included. Also as CHECKs, which a stray UPDATE meets.
RANGES: dict[str, tuple[int, int]] = {
    "weight": (1, 10_000),
    "max_in_flight": (1, 1_000_000),
    "max_jobs": (0, 100_000_000),
    "max_payload_bytes": (2, 1_048_576),
    "max_backfill": (1, 10_000_000),
    "rate_per_second": (1, 1_000_000),
    "rate_burst": (1, 1_000_000),
}


def between(low: int, high: int) -> list[MinValueValidator | MaxValueValidator]:
    """Validators that refuse a number outside, naming the range."""
    message = f"Must be a whole number from {low:,} to {high:,}."
    return [MinValueValidator(low, message), MaxValueValidator(high, message)]


def _storable(name: str) -> Q:
    """CHECK: null or within 2000 to 2100. A year-9999 row with an offset can be saved and then poisons every read."""
    return Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gte": EARLIEST, f"{name}__lte": LATEST})


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
        default=100,
        validators=between(*RANGES["weight"]),
        help_text="Share of the capacity under contention.",
    )
    max_in_flight = models.PositiveIntegerField(
        default=1000,
        validators=between(*RANGES["max_in_flight"]),
        help_text="Triggers queued or running at once.",
    )
    max_jobs = models.PositiveIntegerField(
        default=1_000_000, validators=between(*RANGES["max_jobs"]), help_text="Living jobs."
    )
    max_payload_bytes = models.PositiveIntegerField(
        default=65_536,
        validators=between(*RANGES["max_payload_bytes"]),
        help_text="Size of one job's payload as JSON.",
    )
    rate_per_second = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=between(*RANGES["rate_per_second"]),
        help_text="Dispatches a second; empty: no limit.",
    )
    max_backfill = models.PositiveIntegerField(
        default=10_000,
        validators=between(*RANGES["max_backfill"]),
        help_text="Past firings one backfill may ask for.",
    )
    rate_burst = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=between(*RANGES["rate_burst"]),
        help_text="Dispatches at once; empty: one second's.",
    )
    require_if_match = models.BooleanField(
        "require If-Match",
        default=False,
        db_default=False,
        help_text="PUT, PATCH and DELETE of jobs must name the version they mean, by If-Match; otherwise 428.",
    )
    all_events = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The event feed also tells of each success and each failed attempt that is retried.",
    )
    #: Of all its jobs that have none of their own; ``watched`` as on a job.
    notify = models.JSONField(null=True, blank=True, editable=False)
    watched = models.BooleanField(default=False, db_default=False, editable=False)
    #: Sealed; two of them, the newest first, while one replaces the other (``tenants.vault.signing``).
    webhook_secret = models.TextField(
        blank=True,
        default="",
        editable=False,
        help_text="Signs this tenant's webhooks (Standard Webhooks).",
    )
    webhook_secret_retires_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=("active", "suspended", "frozen")), name="tenant_status_known"
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{name}__gte": low, f"{name}__lte": high}), name=f"tenant_{name}_in_range"
                )
                for name, (low, high) in RANGES.items()
            ),
            models.CheckConstraint(
                condition=_storable("webhook_secret_retires_at"),
                name="tenant_times_between_2000_and_2100",
            ),
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
        #: Reads the audit trail.
        ADMIN = "admin"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=128, editable=False)
    scopes = models.JSONField(default=list)
    rate_per_second = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=between(1, 1_000_000),
        help_text="API calls a second; empty: as the settings say.",
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        verbose_name = "API key"
        constraints = (
            models.CheckConstraint(
                condition=_storable("expires_at"), name="apikey_times_between_2000_and_2100"
            ),
        )

    def __str__(self) -> str:
        return f"ck_{self.prefix}_… ({self.name})"


class Secret(models.Model):
    """A value that webhooks may carry as ``{{secret:name}}``: sealed, and never shown (``tenants.vault``)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="secrets", db_index=False)
    name = models.CharField(max_length=100, validators=[SECRET_NAME])
    sealed = models.TextField(editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)
        # Also serves GET /secrets and the worker's look-up.
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="secret_name_unique_in_tenant"),
        )

    def __str__(self) -> str:
        return self.name

"""Tenants, their quotas and their API keys (DESIGN §8, §10). No behaviour here: writes live in ``tenants.actions``."""

import re
from datetime import UTC, datetime

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from tenants import quotas

SLUG = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use 1 to 63 lower-case letters, digits and inner hyphens.",
)

SECRET_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z",  # ``$`` also matches before a line break at the end
    "Use 1 to 100 letters, digits, underscores, dots and hyphens, a letter or digit first.",
)

SECRET_HOST = RegexValidator(
    r"^(\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,250}[a-z0-9_])?(:[0-9]{1,5})?|\[[0-9a-f:.]{2,45}\](:[0-9]{1,5})?)\Z",
    "Use hosts in lower case, such as api.example.com, api.example.com:8443 or *.example.com; * alone is any host.",
)

QUEUES = RegexValidator(
    r"^[A-Za-z0-9_*?][A-Za-z0-9_.:*?-]{0,199}\Z",
    "Use names of queues, or patterns in which * stands for any characters and ? for one.",
)

TYPE_NAME = RegexValidator(r"^[a-z][a-z0-9_.]{0,62}\Z", "Use names of job types, such as message.")


def is_secret_name(text: str) -> bool:
    return re.fullmatch(SECRET_NAME.regex, text) is not None


#: Every stored time lies between these.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
OUT_OF_BOUNDS = "Must lie between 2000-01-01 and 2100-01-01."


def _storable(name: str) -> Q:
    """CHECK: null or within 2000 to 2100. A year-9999 row with an offset can be saved and then poisons every read."""
    return Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gte": EARLIEST, f"{name}__lte": LATEST})


class Tenant(models.Model):
    """Owner of jobs; a wall for data and a share of the capacity."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        #: Keys are refused and nothing starts; firings that fall due wait.
        SUSPENDED = "suspended"
        #: Keys work for reading; firings that fall due are skipped with the reason ``frozen``.
        FROZEN = "frozen"

    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    weight = models.PositiveIntegerField(**quotas.WEIGHT.column())
    max_in_flight = models.PositiveIntegerField(**quotas.MAX_IN_FLIGHT.column())
    max_jobs = models.PositiveIntegerField(**quotas.MAX_JOBS.column())
    max_payload_bytes = models.PositiveIntegerField(**quotas.MAX_PAYLOAD_BYTES.column())
    rate_per_second = models.PositiveIntegerField(null=True, blank=True, **quotas.RATE_PER_SECOND.column())
    max_backfill = models.PositiveIntegerField(**quotas.MAX_BACKFILL.column())
    rate_burst = models.PositiveIntegerField(null=True, blank=True, **quotas.RATE_BURST.column())
    queues = ArrayField(
        models.CharField(max_length=200, validators=[QUEUES]),
        default=list,
        db_default=[],
        blank=True,
        size=100,
        help_text="Queues that message and celery_task may write to beside those named tenant.<slug>.…: names, or "
        "patterns with * and ?, separated by commas.",
    )
    disabled_types = ArrayField(
        models.CharField(max_length=63, validators=[TYPE_NAME]),
        default=list,
        db_default=[],
        blank=True,
        size=100,
        help_text="Job types of the installation that this tenant may not use, separated by commas.",
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
    circuit_breaker = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Stop calling a host once calls of it keep failing, and try with one call whether it is back. What "
        "falls due meanwhile waits, without an attempt.",
    )
    #: For all its jobs that have none of their own; ``watched`` as on a job.
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
                    condition=Q(**{f"{quota.name}__gte": quota.low, f"{quota.name}__lte": quota.high}),
                    name=f"tenant_{quota.name}_in_range",
                )
                for quota in quotas.QUOTAS
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
        #: The levers over all tenants: of keys of the installation, which have no tenant and no other scope.
        OPERATOR = "operator"

    #: None: the key is the installation's.
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="api_keys", null=True, blank=True
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=128, editable=False)
    scopes = models.JSONField(default=list)
    rate_per_second = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=quotas.between(1, 1_000_000),
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
            models.CheckConstraint(
                condition=Q(tenant__isnull=True, scopes=["operator"])
                | Q(tenant__isnull=False) & ~Q(scopes__contains=["operator"]),
                name="apikey_operator_has_no_tenant",
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
    #: Secrets older than this column: any host.
    hosts = ArrayField(
        models.CharField(max_length=270, validators=[SECRET_HOST]),
        db_default=["*"],
        size=20,
        editable=False,
        help_text="What may be sent it: api.example.com, api.example.com:8443, *.example.com; * is any host.",
    )
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


class OperatorBounds(models.Model):
    """An operator who sees and acts on these tenants alone. An operator without this row is bound to none."""

    operator = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="bounds")
    tenants = models.ManyToManyField(Tenant, blank=True, related_name="+")

    class Meta:
        verbose_name_plural = "operator bounds"

    def __str__(self) -> str:
        return f"bounds of {self.operator}"


class OperatorSession(models.Model):
    """One sign-in to the console; a request under a session whose row is gone is not signed in."""

    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="console_sessions"
    )
    began_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    address = models.CharField(max_length=64, blank=True)
    #: Whether by the password alone.
    signed_in_by = models.CharField(max_length=40, default="password", db_default="password")

    class Meta:
        verbose_name = "session"

    def __str__(self) -> str:
        return f"session of {self.operator}"


class SecondFactor(models.Model):
    """An operator's authenticator app: its code is asked for after the password (``tenants.second_factor``)."""

    operator = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factor", primary_key=True
    )
    #: The secret that the app has.
    sealed = models.TextField(editable=False)
    #: Codes of this step and of those before are spent.
    used_step = models.BigIntegerField(editable=False)
    #: SHA-256 of each recovery code that is left. A code is 80 random bits: there is nothing to guess.
    recovery = ArrayField(models.CharField(max_length=64), default=list, editable=False)
    set_up_at = models.DateTimeField(editable=False)

    def __str__(self) -> str:
        return f"second factor of {self.operator}"


class OperatorIdentity(models.Model):
    """An operator's identity at the identity provider: signing in there signs in here (``tenants.identities``)."""

    operator = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identity"
    )
    issuer = models.CharField(max_length=255)
    subject = models.CharField(
        max_length=255,
        help_text="The operator's subject at the identity provider: the claim sub, not a name.",
    )

    class Meta:
        verbose_name = "single sign-on"
        constraints = (
            models.UniqueConstraint(fields=("issuer", "subject"), name="operator_identity_is_one_operators"),
        )

    def __str__(self) -> str:
        return self.subject

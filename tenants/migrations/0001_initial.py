"""Tenants, their API keys and secrets; what is known of operators beside their accounts."""

from datetime import UTC, datetime

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import migrations, models
from uuid_utils.compat import uuid7


def _between(low: int, high: int) -> list[MinValueValidator]:
    message = f"Must be a whole number from {low:,} to {high:,}."
    return [MinValueValidator(low, message), MaxValueValidator(high, message)]


def _storable(name: str) -> models.Q:
    """CHECK: null or within 2000 to 2100. A year-9999 row with an offset can be saved and then poisons every read."""
    earliest, latest = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    return models.Q(**{f"{name}__isnull": True}) | models.Q(
        **{f"{name}__gte": earliest, f"{name}__lte": latest}
    )


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Tenant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "slug",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
                                "Use 1 to 63 lower-case letters, digits and inner hyphens.",
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "status",
                    models.CharField(
                        choices=[("active", "Active"), ("suspended", "Suspended"), ("frozen", "Frozen")],
                        default="active",
                        max_length=16,
                    ),
                ),
                (
                    "weight",
                    models.PositiveIntegerField(
                        default=100,
                        help_text="Share of the capacity under contention.",
                        validators=_between(1, 10_000),
                    ),
                ),
                (
                    "max_in_flight",
                    models.PositiveIntegerField(
                        default=1000,
                        help_text="Triggers queued or running at once.",
                        validators=_between(1, 1_000_000),
                    ),
                ),
                (
                    "max_jobs",
                    models.PositiveIntegerField(
                        default=1000000, help_text="Living jobs.", validators=_between(0, 100_000_000)
                    ),
                ),
                (
                    "max_payload_bytes",
                    models.PositiveIntegerField(
                        default=65536,
                        help_text="Size of one job's payload as JSON.",
                        validators=_between(2, 1_048_576),
                    ),
                ),
                (
                    "rate_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Dispatches a second; empty: no limit.",
                        null=True,
                        validators=_between(1, 1_000_000),
                    ),
                ),
                (
                    "max_backfill",
                    models.PositiveIntegerField(
                        default=10000,
                        help_text="Past firings one backfill may ask for.",
                        validators=_between(1, 10_000_000),
                    ),
                ),
                (
                    "rate_burst",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Dispatches at once; empty: one second's.",
                        null=True,
                        validators=_between(1, 1_000_000),
                    ),
                ),
                (
                    "queues",
                    ArrayField(
                        base_field=models.CharField(
                            max_length=200,
                            validators=[
                                RegexValidator(
                                    "^[A-Za-z0-9_*?][A-Za-z0-9_.:*?-]{0,199}\\Z",
                                    "Use names of queues, or patterns in which * stands for any characters and ? for one.",
                                )
                            ],
                        ),
                        blank=True,
                        db_default=[],
                        default=list,
                        help_text="Queues that message and celery_task may write to beside those named tenant.<slug>.…: names, or patterns with * and ?, separated by commas.",
                        size=100,
                    ),
                ),
                (
                    "disabled_types",
                    ArrayField(
                        base_field=models.CharField(
                            max_length=63,
                            validators=[
                                RegexValidator(
                                    "^[a-z][a-z0-9_.]{0,62}\\Z", "Use names of job types, such as message."
                                )
                            ],
                        ),
                        blank=True,
                        db_default=[],
                        default=list,
                        help_text="Job types of the installation that this tenant may not use, separated by commas.",
                        size=100,
                    ),
                ),
                (
                    "require_if_match",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="PUT, PATCH and DELETE of jobs must name the version they mean, by If-Match; otherwise 428.",
                        verbose_name="require If-Match",
                    ),
                ),
                (
                    "all_events",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="The event feed also tells of each success and each failed attempt that is retried.",
                    ),
                ),
                (
                    "circuit_breaker",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="Stop calling a host once calls of it keep failing, and try with one call whether it is back. What falls due meanwhile waits, without an attempt.",
                    ),
                ),
                ("notify", models.JSONField(blank=True, editable=False, null=True)),
                ("watched", models.BooleanField(db_default=False, default=False, editable=False)),
                (
                    "webhook_secret",
                    models.TextField(
                        blank=True,
                        default="",
                        editable=False,
                        help_text="Signs this tenant's webhooks (Standard Webhooks).",
                    ),
                ),
                ("webhook_secret_retires_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("slug",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ("active", "suspended", "frozen"))),
                        name="tenant_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("weight__gte", 1), ("weight__lte", 10000)),
                        name="tenant_weight_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_in_flight__gte", 1), ("max_in_flight__lte", 1000000)),
                        name="tenant_max_in_flight_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_jobs__gte", 0), ("max_jobs__lte", 100000000)),
                        name="tenant_max_jobs_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_payload_bytes__gte", 2), ("max_payload_bytes__lte", 1048576)
                        ),
                        name="tenant_max_payload_bytes_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_backfill__gte", 1), ("max_backfill__lte", 10000000)),
                        name="tenant_max_backfill_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rate_per_second__gte", 1), ("rate_per_second__lte", 1000000)),
                        name="tenant_rate_per_second_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("rate_burst__gte", 1), ("rate_burst__lte", 1000000)),
                        name="tenant_rate_burst_in_range",
                    ),
                    models.CheckConstraint(
                        condition=_storable("webhook_secret_retires_at"),
                        name="tenant_times_between_2000_and_2100",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="api_keys",
                        to="tenants.tenant",
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("prefix", models.CharField(editable=False, max_length=16, unique=True)),
                ("secret_hash", models.CharField(editable=False, max_length=128)),
                ("scopes", models.JSONField(default=list)),
                (
                    "rate_per_second",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="API calls a second; empty: as the settings say.",
                        null=True,
                        validators=_between(1, 1_000_000),
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name": "API key",
                "ordering": ("-created_at",),
                "constraints": [
                    models.CheckConstraint(
                        condition=_storable("expires_at"), name="apikey_times_between_2000_and_2100"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("scopes", ["operator"]), ("tenant__isnull", True)),
                            models.Q(
                                ("tenant__isnull", False),
                                models.Q(("scopes__contains", ["operator"]), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="apikey_operator_has_no_tenant",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.UUIDField(default=uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="secrets", to="tenants.tenant"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=100,
                        validators=[
                            RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\\Z",
                                "Use 1 to 100 letters, digits, underscores, dots and hyphens, a letter or digit first.",
                            )
                        ],
                    ),
                ),
                ("sealed", models.TextField(editable=False)),
                (
                    "hosts",
                    ArrayField(
                        base_field=models.CharField(
                            max_length=270,
                            validators=[
                                RegexValidator(
                                    "^(\\*|(\\*\\.)?[a-z0-9_]([a-z0-9_.-]{0,250}[a-z0-9_])?(:[0-9]{1,5})?|\\[[0-9a-f:.]{2,45}\\](:[0-9]{1,5})?)\\Z",
                                    "Use hosts in lower case, such as api.example.com, api.example.com:8443 or *.example.com; * alone is any host.",
                                )
                            ],
                        ),
                        db_default=["*"],
                        editable=False,
                        help_text="What may be sent it: api.example.com, api.example.com:8443, *.example.com; * is any host.",
                        size=20,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="secret_name_unique_in_tenant")
                ],
            },
        ),
        migrations.CreateModel(
            name="OperatorBounds",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "operator",
                    models.OneToOneField(
                        on_delete=models.CASCADE, related_name="bounds", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("tenants", models.ManyToManyField(blank=True, related_name="+", to="tenants.tenant")),
            ],
            options={
                "verbose_name_plural": "operator bounds",
            },
        ),
        migrations.CreateModel(
            name="OperatorSession",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "operator",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="console_sessions", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("began_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("address", models.CharField(blank=True, max_length=64)),
                ("signed_in_by", models.CharField(db_default="password", default="password", max_length=40)),
            ],
            options={
                "verbose_name": "session",
            },
        ),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "operator",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("sealed", models.TextField(editable=False)),
                ("used_step", models.BigIntegerField(editable=False)),
                (
                    "recovery",
                    ArrayField(
                        base_field=models.CharField(max_length=64), default=list, editable=False, size=None
                    ),
                ),
                ("set_up_at", models.DateTimeField(editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="OperatorIdentity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "operator",
                    models.OneToOneField(
                        on_delete=models.CASCADE, related_name="identity", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("issuer", models.CharField(max_length=255)),
                (
                    "subject",
                    models.CharField(
                        help_text="The operator's subject at the identity provider: the claim sub, not a name.",
                        max_length=255,
                    ),
                ),
            ],
            options={
                "verbose_name": "single sign-on",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("issuer", "subject"), name="operator_identity_is_one_operators"
                    )
                ],
            },
        ),
    ]

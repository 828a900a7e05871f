"""Circuit breakers; and the audit trail tells which tenants have them."""

import datetime
from importlib import import_module

import django.db.models.deletion
from django.db import migrations, models

_queues = import_module("jobs.migrations.0028_tenants_queues")
_BEFORE = _queues.WATCHED + ", queues, disabled_types"
_BOUNDS = (
    datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC),
)


def _in_range(name: str) -> models.Q:
    return models.Q(
        (f"{name}__isnull", True),
        models.Q((f"{name}__gte", _BOUNDS[0]), (f"{name}__lte", _BOUNDS[1])),
        _connector="OR",
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0050_operations_trace"), ("tenants", "0011_circuit_breaker")]

    operations = [
        migrations.CreateModel(
            name="Breaker",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("target", models.CharField(max_length=255)),
                (
                    "state",
                    models.CharField(
                        choices=[("closed", "closed"), ("open", "open"), ("half_open", "half_open")],
                        max_length=16,
                    ),
                ),
                ("failures", models.PositiveIntegerField()),
                ("successes", models.PositiveIntegerField()),
                ("window_ends_at", models.DateTimeField()),
                ("openings", models.PositiveIntegerField()),
                ("probe_at", models.DateTimeField(null=True)),
                ("probe_id", models.UUIDField(null=True)),
                ("changed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "closed")),
                        fields=["window_ends_at"],
                        name="breaker_closed",
                    ),
                    models.Index(
                        condition=models.Q(("state", "closed"), _negated=True),
                        fields=["probe_at"],
                        name="breaker_not_closed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "target"), name="breaker_one_per_target"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["closed", "open", "half_open"])),
                        name="breaker_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            _in_range("window_ends_at"), _in_range("probe_at"), _in_range("changed_at")
                        ),
                        name="breaker_times_between_2000_and_2100",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            _queues.trigger(_BEFORE + ", circuit_breaker"), _queues.trigger(_BEFORE)
        ),
    ]

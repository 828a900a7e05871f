"""What processes keep for each other and for operators: leadership, queues, levers, breakers, workers, samples."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models.functions import Now

from jobs.models.fields import times_in_range

# Rows that are written again and again: with room left on the page that touches no index.
_ROOM = """
ALTER TABLE jobs_queuesample SET (fillfactor = 50);
ALTER TABLE jobs_owntotal SET (fillfactor = 50);
"""
_INSTALLATION = "INSERT INTO jobs_installation (id, stopped_by, stop_reason) VALUES (1, '', '')"


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [
        ("jobs", name)
        for name in [
            "0004_dispatch_gates",
            "0005_worker",
            "0008_effects",
            "0010_clocks",
            "0012_messages",
            "0023_let_through",
            "0024_worker_process",
            "0026_zone_rules",
            "0033_one_leader",
            "0034_rate_limit_bypassed",
            "0040_levers",
            "0047_target_rules",
            "0051_breakers",
            "0052_own_totals",
            "0056_forecast",
            "0057_queue_samples",
        ]
    ]
    dependencies = [("jobs", "0003_attempts_and_activity")]
    operations = [
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("name", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=200)),
                ("term", models.BigIntegerField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("job_type", models.CharField(max_length=63, primary_key=True, serialize=False)),
                ("window", models.PositiveIntegerField()),
                ("rate", models.FloatField(default=0)),
                ("dispatched", models.BigIntegerField(default=0)),
                ("drained", models.BigIntegerField(default=0)),
                ("measured_at", models.DateTimeField()),
                ("paused_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("paused_by", models.CharField(db_default="", default="", editable=False, max_length=200)),
                ("pause_reason", models.CharField(db_default="", default="", editable=False, max_length=500)),
                ("max_in_flight", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "verbose_name": "job type",
                "indexes": [
                    models.Index(
                        condition=models.Q(("paused_at__isnull", False)),
                        fields=["job_type"],
                        name="queue_paused",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_in_flight__isnull", True), ("max_in_flight__gte", 1), _connector="OR"
                        ),
                        name="queue_max_in_flight_positive",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range("paused_at"), name="queue_paused_between_2000_and_2100"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Installation",
            fields=[
                (
                    "id",
                    models.SmallIntegerField(default=1, editable=False, primary_key=True, serialize=False),
                ),
                ("stopped_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("stopped_by", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("stop_reason", models.CharField(blank=True, default="", editable=False, max_length=500)),
                ("targets_version", models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                (
                    "targets_changed",
                    ArrayField(
                        base_field=models.CharField(max_length=255),
                        db_default=[],
                        default=list,
                        editable=False,
                        size=None,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "dispatch",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="installation_is_one_row"),
                    models.CheckConstraint(
                        condition=times_in_range("stopped_at"),
                        name="installation_times_between_2000_and_2100",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TargetRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255, unique=True)),
                ("regex", models.CharField(editable=False, max_length=1000)),
                ("rate_per_second", models.FloatField(blank=True, null=True)),
                ("max_in_flight", models.PositiveIntegerField(blank=True, null=True)),
                ("paused_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("paused_by", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("pause_reason", models.CharField(blank=True, default="", editable=False, max_length=500)),
            ],
            options={
                "verbose_name": "target",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("rate_per_second__isnull", True),
                            models.Q(("rate_per_second__gte", 0), ("rate_per_second__lte", 100000.0)),
                            _connector="OR",
                        ),
                        name="target_rate_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_in_flight__isnull", True),
                            models.Q(("max_in_flight__gte", 1), ("max_in_flight__lte", 1000000)),
                            _connector="OR",
                        ),
                        name="target_max_in_flight_in_range",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range("paused_at"), name="target_paused_between_2000_and_2100"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Breaker",
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
                        db_index=False, on_delete=models.CASCADE, related_name="+", to="tenants.tenant"
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
                        condition=times_in_range("window_ends_at", "probe_at", "changed_at"),
                        name="breaker_times_between_2000_and_2100",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("job_type", models.CharField(max_length=63)),
                ("items", models.JSONField()),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("queues", ArrayField(base_field=models.CharField(max_length=80), size=None)),
                ("concurrency", models.PositiveIntegerField()),
                ("process", models.CharField(db_default="", default="", max_length=32)),
                ("busy", models.PositiveIntegerField(null=True)),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=times_in_range("seen_at"), name="worker_times_between_2000_and_2100"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Clock",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("offset_seconds", models.FloatField()),
                ("within_seconds", models.FloatField()),
                ("rate_limit_bypassed", models.BigIntegerField(db_default=0, default=0)),
                ("version", models.CharField(blank=True, db_default="", default="", max_length=32)),
                ("measured_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=times_in_range("measured_at"), name="clock_times_between_2000_and_2100"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ZoneRules",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.CharField(max_length=16)),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="zonerules_one_row"),
                    models.CheckConstraint(
                        condition=times_in_range("seen_at"), name="zonerules_times_in_range"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Effect",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "trigger_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("trigger_id", models.UUIDField()),
                ("key", models.CharField(max_length=200)),
                ("fence", models.PositiveIntegerField()),
                ("recorded_at", models.DateTimeField(db_default=Now())),
                ("duplicates", models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=times_in_range("recorded_at"), name="effect_times_in_range"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueSample",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "step_seconds",
                        "job_type",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("step_seconds", models.PositiveIntegerField()),
                ("job_type", models.CharField(max_length=63)),
                ("at", models.DateTimeField()),
                ("due", models.PositiveIntegerField()),
                ("parked", models.PositiveIntegerField()),
                ("queued", models.PositiveIntegerField()),
                ("running", models.PositiveIntegerField()),
                ("slots", models.PositiveIntegerField()),
                ("lag_seconds", models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name="OwnTotal",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "name",
                        "labels",
                        "kind",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=63)),
                ("labels", ArrayField(base_field=models.CharField(max_length=200), size=None)),
                ("kind", models.CharField(max_length=16)),
                ("count", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="KeptForecast",
            fields=[
                ("tenant_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("made_at", models.DateTimeField()),
                ("since", models.DateTimeField()),
                ("total", models.BigIntegerField()),
                ("jobs", models.BigIntegerField()),
                ("counts", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("peaks", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("peak_minutes", ArrayField(base_field=models.SmallIntegerField(), size=None)),
            ],
            options={
                "db_table": "jobs_forecast",
                "indexes": [models.Index(fields=["-total"], name="forecast_by_total")],
            },
        ),
        migrations.RunSQL(_ROOM, migrations.RunSQL.noop),
        # There is one row, from the first.
        migrations.RunSQL(_INSTALLATION, migrations.RunSQL.noop),
    ]

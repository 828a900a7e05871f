"""The database's clock; jobs, the timeline of their schedules, and what of it was skipped or is caught up with.

A model's own file (``jobs.models``) says what each column and index is for. Here stands what no model can say, and why.
"""

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

from jobs.models.fields import new_id, times_in_range

# carillon_now() is STABLE, so that an index condition can use it; carillon_clock() moves within a statement, as leases
# need. Both add the session's carillon.clock_offset: a clock that tests can set, zero everywhere else.
_CLOCK = """
CREATE FUNCTION carillon_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp()
           + coalesce(nullif(current_setting('carillon.clock_offset', true), ''), '0')::interval
$$;
CREATE FUNCTION carillon_clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT clock_timestamp()
           + coalesce(nullif(current_setting('carillon.clock_offset', true), ''), '0')::interval
$$;
"""
# A job's schedule as its timeline holds it: told once, for jobs that are written and for those that are there. The
# timeline's reader is jobs.store.jobs.schedule_then.
_SCHEDULE = """
CREATE FUNCTION carillon_schedule(job jobs_job) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'schedule_type', job.schedule_type, 'cron_expression', job.cron_expression,
        'cron_dialect', job.cron_dialect, 'timezone', job.timezone,
        'interval_seconds', extract(epoch FROM job."interval"), 'run_at', job.run_at, 'starts_at', job.starts_at,
        'ends_at', job.ends_at, 'dst_policy', job.dst_policy, 'created_at', job.created_at)
$$;
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [("tenants", "0001_initial")]
    operations = [
        # First: defaults of columns use it.
        migrations.RunSQL(_CLOCK, "DROP FUNCTION carillon_now(); DROP FUNCTION carillon_clock();"),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=models.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                ("name", models.CharField(db_collation="C", max_length=200)),
                ("labels", models.JSONField(blank=True, db_default={}, default=dict)),
                ("job_type", models.CharField(max_length=63)),
                ("payload", models.JSONField(blank=True, default=dict)),
                (
                    "target",
                    models.CharField(blank=True, db_default="", default="", editable=False, max_length=255),
                ),
                (
                    "schedule_type",
                    models.CharField(
                        choices=[
                            ("cron", "cron"),
                            ("interval", "interval"),
                            ("once", "once"),
                            ("immediate", "immediate"),
                        ],
                        max_length=16,
                    ),
                ),
                ("cron_expression", models.CharField(blank=True, max_length=100)),
                (
                    "cron_dialect",
                    models.CharField(
                        choices=[("unix", "unix"), ("quartz", "quartz")],
                        db_default="unix",
                        default="unix",
                        max_length=16,
                    ),
                ),
                ("timezone", models.CharField(default="UTC", max_length=64)),
                ("interval", models.DurationField(blank=True, null=True)),
                ("run_at", models.DateTimeField(blank=True, null=True)),
                ("starts_at", models.DateTimeField(blank=True, null=True)),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                (
                    "dst_policy",
                    models.CharField(
                        choices=[("vixie", "vixie"), ("skip", "skip"), ("both", "both")],
                        default="vixie",
                        max_length=16,
                    ),
                ),
                ("jitter", models.DurationField(default=timedelta(0))),
                (
                    "priority",
                    models.SmallIntegerField(
                        choices=[(0, "critical"), (1, "high"), (2, "medium"), (3, "low")], default=2
                    ),
                ),
                ("timeout", models.DurationField()),
                (
                    "delivery",
                    models.CharField(
                        choices=[
                            ("at_least_once", "at least once"),
                            ("at_most_once", "at most once"),
                            ("exactly_once", "exactly once"),
                        ],
                        default="at_least_once",
                        max_length=16,
                    ),
                ),
                ("retry_policy", models.JSONField(blank=True, default=dict)),
                (
                    "overlap_policy",
                    models.CharField(
                        choices=[
                            ("skip", "skip"),
                            ("queue", "queue"),
                            ("collapse", "collapse"),
                            ("allow", "allow"),
                            ("replace", "replace"),
                        ],
                        default="skip",
                        max_length=16,
                    ),
                ),
                ("max_concurrent", models.PositiveIntegerField(default=1)),
                ("concurrency_key", models.CharField(blank=True, max_length=200)),
                (
                    "misfire_policy",
                    models.CharField(
                        choices=[
                            ("fire_once", "fire once"),
                            ("skip", "skip"),
                            ("fire_all", "fire all"),
                            ("backfill", "backfill"),
                        ],
                        default="fire_once",
                        max_length=16,
                    ),
                ),
                ("misfire_grace", models.DurationField(default=timedelta(seconds=60))),
                ("catchup_window", models.DurationField(default=timedelta(seconds=3600))),
                ("max_catchup", models.PositiveIntegerField(default=100)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("active", "active"),
                            ("paused", "paused"),
                            ("cancelled", "cancelled"),
                            ("completed", "completed"),
                        ],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("status_reason", models.CharField(blank=True, max_length=500)),
                ("paused_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("notify", models.JSONField(blank=True, null=True)),
                ("watched", models.BooleanField(db_default=False, default=False, editable=False)),
                ("pause_after_failures", models.PositiveIntegerField(blank=True, null=True)),
                ("delete_after", models.DurationField(blank=True, null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("next_fire_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("expires_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "permissions": (("view_payload", "Can see payloads, results, answers and outputs"),),
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_fire_at__isnull", False), ("status", "active")),
                        fields=["next_fire_at"],
                        name="job_next_fire",
                    ),
                    models.Index(
                        condition=models.Q(("next_fire_at__isnull", True), ("status", "active")),
                        fields=["id"],
                        name="job_exhausted",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=["tenant", "-id"],
                        name="job_of_tenant",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("deleted_at__isnull", True), ("status__in", ("paused", "completed", "cancelled"))
                        ),
                        fields=["tenant", "status", "-id"],
                        name="job_at_rest",
                    ),
                    models.Index(
                        condition=models.Q(("paused_until__isnull", False)),
                        fields=["paused_until"],
                        name="job_paused_until",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True), ("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="job_expires",
                    ),
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", False)),
                        fields=["deleted_at"],
                        name="job_deleted",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=("tenant", "name"),
                        name="job_name_unique_among_living",
                    ),
                    models.UniqueConstraint(fields=("id", "tenant"), name="job_and_its_tenant"),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["active", "paused", "cancelled", "completed"])),
                        name="job_status_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("schedule_type__in", ["cron", "interval", "once", "immediate"])),
                        name="job_schedule_type_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("overlap_policy__in", ["skip", "queue", "collapse", "allow", "replace"])
                        ),
                        name="job_overlap_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("misfire_policy__in", ["fire_once", "skip", "fire_all", "backfill"])
                        ),
                        name="job_misfire_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("delivery__in", ["at_least_once", "at_most_once", "exactly_once"])
                        ),
                        name="job_delivery_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("dst_policy__in", ["vixie", "skip", "both"])),
                        name="job_dst_policy_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cron_dialect__in", ["unix", "quartz"])),
                        name="job_cron_dialect_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__gte", 0), ("priority__lte", 3)),
                        name="job_priority_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("timeout__gt", timedelta(0))), name="job_timeout_positive"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_concurrent__gte", 1)), name="job_max_concurrent_positive"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("schedule_type", "cron"), models.Q(("cron_expression", ""), _negated=True)
                            ),
                            models.Q(("interval__gt", timedelta(0)), ("schedule_type", "interval")),
                            models.Q(("run_at__isnull", False), ("schedule_type", "once")),
                            ("schedule_type", "immediate"),
                            _connector="OR",
                        ),
                        name="job_schedule_complete",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range(
                            "run_at",
                            "starts_at",
                            "ends_at",
                            "next_fire_at",
                            "created_at",
                            "updated_at",
                            "deleted_at",
                        ),
                        name="job_times_between_2000_and_2100",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("paused_until__isnull", True),
                            models.Q(("status", "paused"), times_in_range("paused_until")),
                            _connector="OR",
                        ),
                        name="job_paused_until_of_a_pause",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobVersion",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="versions",
                        to="jobs.job",
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("version", models.PositiveIntegerField()),
                ("status", models.CharField(max_length=16)),
                ("schedule", models.JSONField()),
                ("valid_from", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["job", "valid_from", "id"], name="jobversion_of_job")],
                "constraints": [
                    models.CheckConstraint(
                        condition=times_in_range("valid_from"), name="jobversion_times_in_range"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SkippedRange",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="skipped_ranges",
                        to="jobs.job",
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("job_version", models.PositiveIntegerField()),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("count", models.PositiveBigIntegerField()),
                ("reason", models.CharField(max_length=32)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["job", "-until_at"], name="skippedrange_of_job")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "reason__in",
                                ["misfire", "coalesced", "overlap", "collapsed", "paused", "frozen"],
                            )
                        ),
                        name="skippedrange_reason_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("count__gte", 1), ("until_at__gte", models.F("from_at"))),
                        name="skippedrange_not_empty",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range("from_at", "until_at", "created_at"),
                        name="skippedrange_times_in_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CatchUp",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="catch_ups",
                        to="jobs.job",
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("job_version", models.PositiveIntegerField()),
                (
                    "origin",
                    models.CharField(choices=[("outage", "Outage"), ("backfill", "Backfill")], max_length=16),
                ),
                (
                    "policy",
                    models.CharField(
                        choices=[
                            ("fire_once", "fire once"),
                            ("skip", "skip"),
                            ("fire_all", "fire all"),
                            ("backfill", "backfill"),
                        ],
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, db_default="", default="", max_length=32)),
                ("window_start", models.DateTimeField(blank=True, null=True)),
                ("max_catchup", models.PositiveIntegerField(blank=True, null=True)),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("cursor", models.DateTimeField()),
                ("tail", ArrayField(base_field=models.DateTimeField(), default=list, size=None)),
                ("trace", models.CharField(blank=True, max_length=568, null=True)),
                ("expected", models.PositiveBigIntegerField(blank=True, null=True)),
                ("fired", models.PositiveBigIntegerField(default=0)),
                ("skipped", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("finished_at__isnull", True),
                            models.Q(
                                models.Q(("reason", ""), _negated=True),
                                models.Q(
                                    ("policy", "fire_all"),
                                    ("cursor__gte", models.F("until_at")),
                                    _connector="OR",
                                    _negated=True,
                                ),
                                _connector="OR",
                            ),
                        ),
                        fields=["id"],
                        name="catchup_undecided",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("finished_at__isnull", True),
                            ("reason", ""),
                            models.Q(
                                ("policy", "fire_all"), ("cursor__gte", models.F("until_at")), _connector="OR"
                            ),
                        ),
                        fields=["tenant_id", "id"],
                        name="catchup_to_run",
                    ),
                    models.Index(fields=["job", "-id"], name="catchup_of_job"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("policy__in", ["fire_once", "skip", "fire_all", "backfill"])),
                        name="catchup_policy_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("reason", ""),
                            (
                                "reason__in",
                                ["misfire", "coalesced", "overlap", "collapsed", "paused", "frozen"],
                            ),
                            _connector="OR",
                        ),
                        name="catchup_reason_known",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range(
                            "from_at", "until_at", "cursor", "window_start", "created_at", "finished_at"
                        ),
                        name="catchup_times_in_range",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_SCHEDULE, "DROP FUNCTION carillon_schedule(jobs_job)"),
    ]

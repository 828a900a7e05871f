"""Triggers, the rules that each of their rows obeys, and the stamp by which dispatch finds new ones.

Rows come into the indexes of dead letters, retries and held triggers only as they die, fail for now or are held, so a
firing that goes well touches none of these.
"""

from django.db import migrations, models

from jobs.models.fields import Clock, new_id

# As Django writes CHECKs they were more than half of what it took to change one row (docs/adr/0019), for the server
# reads each of them in every statement: a list as an ARRAY of casts instead of one constant, and eight times a pair of
# bounds instead of one.
_RULES = """
ALTER TABLE jobs_trigger
    ADD CONSTRAINT trigger_reason_fits_state CHECK (
        CASE WHEN state = ANY ('{pending,queued,running,retrying,succeeded}'::text[]) THEN reason = ''
             WHEN state = 'skipped'
             THEN reason = ANY ('{misfire,coalesced,overlap,collapsed,paused,frozen}'::text[])
             WHEN state = 'dead'
             THEN reason = ANY ('{exhausted,permanent,poison,lost}'::text[])
             WHEN state = 'cancelled'
             THEN reason = ANY ('{job_cancelled,superseded,requested,preempted}'::text[])
             ELSE false END),
    ADD CONSTRAINT trigger_state_is_stamped CHECK (
        CASE state WHEN 'queued' THEN queued_at IS NOT NULL
                   WHEN 'running' THEN lease_expires_at IS NOT NULL
                   ELSE true END),
    ADD CONSTRAINT trigger_priority_known CHECK (priority >= 0 AND priority <= 3),
    ADD CONSTRAINT trigger_parked_is_held CHECK (held OR NOT parked),
    -- least and greatest pass nulls over.
    ADD CONSTRAINT trigger_times_between_2000_and_2100 CHECK (
        least(scheduled_for, due_at, created_at, queued_at, started_at, finished_at, lease_expires_at, parked_until)
            >= '2000-01-01 00:00:00+00'::timestamptz AND
        greatest(scheduled_for, due_at, created_at, queued_at, started_at, finished_at, lease_expires_at, parked_until)
            <= '2100-01-01 00:00:00+00'::timestamptz);
-- Indexes know a trigger's phase, not its state. With room left on the page for the row, a claim touches none of them.
ALTER TABLE jobs_trigger SET (fillfactor = 50);
"""
# No row is of another tenant than its job, whatever a statement may say: one foreign key in the place of two.
# It is made here since Django makes the constraint of jobs_job that it refers to at the end of migration 0001.
_OF_ITS_JOBS_TENANT = """
ALTER TABLE jobs_{0} ADD CONSTRAINT {0}_of_its_jobs_tenant
    FOREIGN KEY (job_id, tenant_id) REFERENCES jobs_job (id, tenant_id)
"""
# Dispatch hears of new work instead of looking through all lanes: what becomes dispatchable is stamped.
_ANNOUNCE = """
CREATE FUNCTION carillon_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.announced_at := carillon_clock();
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_trigger_announce BEFORE UPDATE OF state, held, due_at, job_type, priority ON jobs_trigger
    FOR EACH ROW WHEN (
        NEW.state IN ('pending', 'retrying') AND NOT NEW.held
        AND (OLD.state NOT IN ('pending', 'retrying') OR OLD.held OR NEW.due_at < OLD.due_at
             OR NEW.job_type <> OLD.job_type OR NEW.priority <> OLD.priority))
    EXECUTE FUNCTION carillon_announce();
"""


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [
        ("jobs", name)
        for name in [
            "0003_trigger_payload",
            "0016_phases",
            "0017_triggers_of_their_jobs_tenant",
            "0021_cheap_checks",
            "0025_announcements",
            "0027_queued_at",
            "0045_traces",
            "0048_parked_for",
            "0053_parked_lanes",
            "0059_lists",
            "0062_run_beside",
            "0066_dismissed",
        ]
    ]
    dependencies = [("jobs", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="Trigger",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="triggers",
                        to="jobs.job",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
                ("job_type", models.CharField(max_length=63)),
                ("job_version", models.PositiveIntegerField()),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("schedule", "Schedule"),
                            ("catchup", "Catchup"),
                            ("run_now", "Run Now"),
                            ("run_beside", "Run now, beside others"),
                            ("backfill", "Backfill"),
                        ],
                        default="schedule",
                        max_length=16,
                    ),
                ),
                ("scheduled_for", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("retrying", "retrying"),
                            ("succeeded", "succeeded"),
                            ("dead", "dead"),
                            ("skipped", "skipped"),
                            ("cancelled", "cancelled"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                (
                    "phase",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(
                            models.When(state__in=["pending"], then=models.Value("pending")),
                            models.When(state__in=["retrying"], then=models.Value("retrying")),
                            models.When(state__in=["queued", "running"], then=models.Value("in_flight")),
                            models.When(state__in=["dead"], then=models.Value("dead")),
                            models.When(
                                state__in=["succeeded", "skipped", "cancelled"], then=models.Value("ended")
                            ),
                        ),
                        output_field=models.CharField(max_length=16),
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=32)),
                ("held", models.BooleanField(default=False)),
                ("parked", models.BooleanField(db_default=False, default=False)),
                ("parked_until", models.DateTimeField(blank=True, null=True)),
                ("parked_for", models.CharField(blank=True, db_default="", default="", max_length=255)),
                ("concurrency_key", models.CharField(blank=True, db_default="", default="", max_length=200)),
                (
                    "priority",
                    models.SmallIntegerField(
                        choices=[(0, "critical"), (1, "high"), (2, "medium"), (3, "low")]
                    ),
                ),
                ("idempotency_key", models.CharField(max_length=120)),
                ("trace", models.CharField(blank=True, max_length=568, null=True)),
                ("payload", models.JSONField(blank=True, null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("budget_start", models.PositiveIntegerField(default=0)),
                ("crash_count", models.PositiveIntegerField(default=0)),
                ("suspect", models.BooleanField(db_default=False, default=False)),
                ("replay_count", models.PositiveIntegerField(default=0)),
                ("worker", models.CharField(blank=True, max_length=200)),
                ("lease_expires_at", models.DateTimeField(blank=True, null=True)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("cancel_reason", models.CharField(blank=True, db_default="", default="", max_length=32)),
                ("progress", models.JSONField(blank=True, null=True)),
                ("checkpoint", models.JSONField(blank=True, null=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                ("announced_at", models.DateTimeField(blank=True, db_default=Clock(), null=True)),
                ("queued_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("dismissed_at", models.DateTimeField(blank=True, null=True)),
                ("dismissed_by", models.CharField(blank=True, db_default="", default="", max_length=200)),
                ("dismissed_note", models.CharField(blank=True, db_default="", default="", max_length=500)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("held", False), ("phase__in", ("pending", "retrying"))),
                        fields=["tenant", "job_type", "priority", "due_at"],
                        name="trigger_lane",
                    ),
                    models.Index(
                        condition=models.Q(("phase", "in_flight")),
                        fields=["queued_at"],
                        name="trigger_queued_at",
                    ),
                    models.Index(
                        condition=models.Q(("phase", "in_flight")),
                        fields=["tenant", "job_type"],
                        name="trigger_in_flight",
                    ),
                    models.Index(
                        condition=models.Q(("phase__in", ("pending", "retrying", "in_flight"))),
                        fields=["job", "phase", "scheduled_for"],
                        name="trigger_unfinished_of_job",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("phase", "in_flight"), models.Q(("concurrency_key", ""), _negated=True)
                        ),
                        fields=["tenant", "concurrency_key"],
                        name="trigger_key_in_flight",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("held", False),
                            ("phase__in", ("pending", "retrying")),
                            ("announced_at__isnull", False),
                        ),
                        fields=["announced_at"],
                        name="trigger_announced",
                    ),
                    models.Index(
                        condition=models.Q(("parked", True), ("parked_until__isnull", True)),
                        fields=["job", "scheduled_for"],
                        name="trigger_parked",
                    ),
                    models.Index(
                        condition=models.Q(("parked_until__isnull", False)),
                        fields=["parked_until"],
                        name="trigger_parked_until",
                    ),
                    models.Index(
                        condition=models.Q(("parked", True), models.Q(("parked_for", ""), _negated=True)),
                        fields=["parked_for", "tenant", "priority", "due_at"],
                        name="trigger_parked_lane",
                    ),
                    models.Index(
                        condition=models.Q(("origin__in", ("catchup", "backfill")), ("phase", "pending")),
                        fields=["tenant"],
                        name="trigger_catchup_waiting",
                    ),
                    models.Index(
                        condition=models.Q(("tenant__gt", 0)),
                        fields=["tenant", "-id"],
                        name="trigger_of_tenant",
                    ),
                    models.Index(
                        condition=models.Q(("dismissed_at", None), ("phase", "dead")),
                        fields=["tenant", "-id"],
                        name="trigger_dead_letter",
                    ),
                    models.Index(
                        condition=models.Q(("dismissed_at", None), ("phase", "dead")),
                        fields=["finished_at"],
                        name="trigger_letter_died",
                    ),
                    models.Index(
                        condition=models.Q(("dismissed_at", None), ("phase", "dead")),
                        fields=["tenant", "finished_at"],
                        name="trigger_letter_of_tenant",
                    ),
                    models.Index(
                        condition=models.Q(("phase", "retrying")), fields=["due_at"], name="trigger_retrying"
                    ),
                    models.Index(
                        condition=models.Q(("held", True), ("phase__in", ("pending", "retrying"))),
                        fields=["due_at"],
                        name="trigger_held",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "scheduled_for"), name="trigger_one_per_firing")
                ],
            },
        ),
        migrations.RunSQL(_RULES, migrations.RunSQL.noop),
        *(
            migrations.RunSQL(
                _OF_ITS_JOBS_TENANT.format(name),
                f"ALTER TABLE jobs_{name} DROP CONSTRAINT {name}_of_its_jobs_tenant",
            )
            for name in ("trigger", "jobversion", "skippedrange", "catchup")
        ),
        migrations.RunSQL(
            _ANNOUNCE,
            "DROP TRIGGER jobs_trigger_announce ON jobs_trigger; DROP FUNCTION carillon_announce();",
        ),
    ]

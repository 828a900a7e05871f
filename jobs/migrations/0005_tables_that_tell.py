"""What callers ask for beside jobs; and what tables count, index and tell of their own rows, by triggers."""

from datetime import timedelta

from django.db import migrations, models

from jobs.models.fields import TransactionId, new_id, times_in_range

# How many living jobs each tenant has: those that are neither deleted nor ended (ADR 10). By statement where rows come
# and go in bulk, by row where one ends or is deleted softly: a statement-level trigger of UPDATE would collect the rows
# of every step of the materializer.
_TALLY_OF_JOBS = """
CREATE FUNCTION carillon_tally_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_jobtally;
    WHEN 'UPDATE' THEN
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        VALUES (NEW.tenant_id, pg_backend_pid() % 64, CASE WHEN NEW.deleted_at IS NULL AND NEW.status IN ('active', 'paused') THEN 1 ELSE -1 END)
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    ELSE
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        SELECT tenant_id, pg_backend_pid() % 64, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * count(*)
        FROM changed WHERE changed.deleted_at IS NULL AND changed.status IN ('active', 'paused') GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_tally_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_delete AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_update AFTER UPDATE OF deleted_at, status ON jobs_job
    FOR EACH ROW WHEN ((OLD.deleted_at IS NULL AND OLD.status IN ('active', 'paused')) <> (NEW.deleted_at IS NULL AND NEW.status IN ('active', 'paused')))
    EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_truncate AFTER TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
"""
# What finds jobs by their labels. By statement where rows come and go in bulk, by row where labels are edited or a job
# is deleted softly.
_LABELS = """
CREATE FUNCTION carillon_label_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_joblabel;
    WHEN 'INSERT' THEN
        INSERT INTO jobs_joblabel (tenant_id, key, value, job_id)
        SELECT c.tenant_id, e.key, e.value, c.id FROM changed c, jsonb_each_text(c.labels) e
        WHERE c.deleted_at IS NULL AND c.labels <> '{}';
    WHEN 'DELETE' THEN
        DELETE FROM jobs_joblabel l USING changed c, jsonb_each_text(c.labels) e
        WHERE c.labels <> '{}'
          AND l.tenant_id = c.tenant_id AND l.key = e.key AND l.value = e.value AND l.job_id = c.id;
    ELSE
        DELETE FROM jobs_joblabel l USING jsonb_each_text(OLD.labels) e
        WHERE l.tenant_id = OLD.tenant_id AND l.key = e.key AND l.value = e.value AND l.job_id = OLD.id;
        INSERT INTO jobs_joblabel (tenant_id, key, value, job_id)
        SELECT NEW.tenant_id, e.key, e.value, NEW.id FROM jsonb_each_text(NEW.labels) e
        WHERE NEW.deleted_at IS NULL;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_label_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_delete AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_update AFTER UPDATE OF labels, deleted_at ON jobs_job
    FOR EACH ROW WHEN (OLD.labels <> NEW.labels
                       OR NEW.labels <> '{}' AND (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_truncate AFTER TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
"""
# How much is kept of each tenant's answers to calls with an Idempotency-Key. An answer counts by its body, and by 500
# bytes for the rest of its row. By statement where rows come and go; by row where one that is past its time gives way.
_TALLY_OF_ANSWERS = """
CREATE FUNCTION carillon_tally_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_answertally;
    WHEN 'UPDATE' THEN
        INSERT INTO jobs_answertally AS t (tenant_id, stripe, bytes)
        VALUES (NEW.tenant_id, pg_backend_pid() % 64, octet_length(NEW.body) - octet_length(OLD.body))
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    ELSE
        INSERT INTO jobs_answertally AS t (tenant_id, stripe, bytes)
        SELECT tenant_id, pg_backend_pid() % 64,
               CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * sum(500 + octet_length(body))
        FROM changed GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER answers_tally_insert AFTER INSERT ON jobs_answer REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_delete AFTER DELETE ON jobs_answer REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_update AFTER UPDATE OF body ON jobs_answer
    FOR EACH ROW WHEN (octet_length(OLD.body) <> octet_length(NEW.body))
    EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_truncate AFTER TRUNCATE ON jobs_answer
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
"""
# By statement where jobs come in bulk, by row where one changes. Neither meets a step of the materializer, which sets
# none of these columns. A job with one firing is not heard of as completed: that firing's end says it, and it is the
# path of a success. Of a pause it is told whether a caller or an operator asked for it.
_EVENTS = """
CREATE FUNCTION carillon_note_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        SELECT tenant_id, carillon_clock(), 'job.created', id, jsonb_build_object(
            'job_name', name, 'job_type', split_part(job_type, '@', 1), 'status', status, 'version', version)
        FROM changed WHERE deleted_at IS NULL;
    ELSE
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        VALUES (NEW.tenant_id, carillon_clock(), CASE
                WHEN NEW.deleted_at IS NOT NULL THEN 'job.deleted'
                WHEN NEW.status = OLD.status THEN 'job.updated'
                WHEN NEW.status = 'active' THEN 'job.resumed'
                ELSE 'job.' || NEW.status END,
            NEW.id, jsonb_strip_nulls(jsonb_build_object(
                'job_name', NEW.name, 'job_type', split_part(NEW.job_type, '@', 1), 'status', NEW.status,
                'version', NEW.version, 'reason', nullif(NEW.status_reason, ''), 'until', NEW.paused_until,
                'requested', CASE WHEN NEW.status = 'paused' AND carillon_actor() ->> 'kind' <> 'engine' THEN true END)));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_note_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_note_jobs();
CREATE TRIGGER jobs_note_update AFTER UPDATE OF status, version, deleted_at ON jobs_job
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND (NEW.status <> OLD.status OR NEW.version <> OLD.version
                                                   OR NEW.deleted_at IS NOT NULL)
                       AND NOT (NEW.status = 'completed' AND NEW.schedule_type IN ('once', 'immediate')))
    EXECUTE FUNCTION carillon_note_jobs();
"""
_UNDO = "DROP FUNCTION {} CASCADE"


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [
        ("jobs", name)
        for name in [
            "0006_catchup_outlives_edits",
            "0009_job_tally",
            "0011_answers",
            "0013_pull_types",
            "0014_labels",
            "0015_events",
            "0018_operations",
            "0019_notices",
            "0020_history_of_its_jobs_tenant",
            "0029_answer_tally",
            "0032_schedule_of_a_job",
            "0046_edits_and_paces",
            "0050_operations_trace",
            "0058_paused_until",
            "0060_operation_reason",
            "0065_ended_jobs",
        ]
    ]
    dependencies = [("jobs", "0004_engine")]
    operations = [
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=models.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                ("verb", models.CharField(max_length=16)),
                ("filter", models.JSONField()),
                ("changes", models.JSONField(null=True)),
                ("reason", models.CharField(blank=True, db_default="", default="", max_length=500)),
                ("expected", models.PositiveBigIntegerField(null=True)),
                ("all_or_nothing", models.BooleanField(db_default=False, default=False)),
                ("checking", models.BooleanField(db_default=False, default=False)),
                ("checked", models.PositiveBigIntegerField(db_default=0, default=0)),
                ("per_second", models.FloatField(null=True)),
                ("next_at", models.DateTimeField(null=True)),
                ("cursor", models.UUIDField()),
                ("done", models.PositiveBigIntegerField(default=0)),
                ("refused", models.PositiveBigIntegerField(default=0)),
                ("refusals", models.JSONField(default=list)),
                ("cancelled", models.BooleanField(default=False)),
                ("asked_by", models.JSONField(editable=False, null=True)),
                ("trace", models.CharField(editable=False, max_length=568, null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("paused_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("finished_at__isnull", True)),
                        fields=["updated_at"],
                        name="operation_unfinished",
                    ),
                    models.Index(fields=["tenant", "-id"], name="operation_of_tenant"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "verb__in",
                                ["pause", "resume", "cancel", "delete", "edit", "replay", "cancel_triggers"],
                            )
                        ),
                        name="operation_verb_known",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range(
                            "created_at", "updated_at", "next_at", "paused_at", "finished_at"
                        ),
                        name="operation_times_between_2000_and_2100",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("changes__isnull", False), ("verb", "edit")),
                            models.Q(
                                models.Q(("verb", "edit"), _negated=True),
                                ("all_or_nothing", False),
                                ("changes__isnull", True),
                                ("checking", False),
                            ),
                            _connector="OR",
                        ),
                        name="operation_changes_of_an_edit",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("next_at__isnull", True), ("per_second__isnull", True)),
                            models.Q(
                                ("next_at__isnull", False),
                                ("per_second__gte", 0.1),
                                ("per_second__lte", 1000),
                                ("verb__in", ("resume", "replay")),
                            ),
                            _connector="OR",
                        ),
                        name="operation_pace_in_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PullType",
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
                        db_index=False, on_delete=models.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("job_type", models.CharField(editable=False, max_length=63, unique=True)),
                ("description", models.CharField(blank=True, max_length=500)),
                ("timeout", models.DurationField()),
                ("max_in_flight", models.PositiveIntegerField(blank=True, null=True)),
                ("payload_schema", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="pull_type_name_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("timeout__gt", timedelta(0))), name="pull_type_timeout_positive"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_in_flight__isnull", True), ("max_in_flight__gte", 1), _connector="OR"
                        ),
                        name="pull_type_max_in_flight_positive",
                    ),
                    models.CheckConstraint(
                        condition=times_in_range("created_at", "updated_at"),
                        name="pull_type_times_between_2000_and_2100",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Answer",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("key", models.CharField(db_collation="C", max_length=255)),
                ("fingerprint", models.BinaryField()),
                ("status", models.PositiveSmallIntegerField()),
                ("headers", models.JSONField()),
                ("body", models.BinaryField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="answer_created")],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("xid", TransactionId(db_default=models.Func(function="pg_current_xact_id"), editable=False)),
                ("tenant_id", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=32)),
                ("job_id", models.UUIDField()),
                ("trigger_id", models.UUIDField(null=True)),
                ("data", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "xid", "id"], name="event_of_tenant"),
                    models.Index(fields=["xid", "id"], name="event_in_order"),
                ],
            },
        ),
        migrations.CreateModel(
            name="FeedReader",
            fields=[
                ("name", models.CharField(max_length=63, primary_key=True, serialize=False)),
                ("xid", TransactionId(editable=False)),
                ("event_id", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="JobTally",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "stripe", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("stripe", models.PositiveSmallIntegerField()),
                ("jobs", models.BigIntegerField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="JobLabel",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "key",
                        "value",
                        "job_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("key", models.CharField(db_collation="C", max_length=63)),
                ("value", models.CharField(db_collation="C", max_length=63)),
                ("job_id", models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name="AnswerTally",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "stripe", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("stripe", models.PositiveSmallIntegerField()),
                ("bytes", models.BigIntegerField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.RunSQL(_TALLY_OF_JOBS, _UNDO.format("carillon_tally_jobs()")),
        migrations.RunSQL(_LABELS, _UNDO.format("carillon_label_jobs()")),
        migrations.RunSQL(_TALLY_OF_ANSWERS, _UNDO.format("carillon_tally_answers()")),
        migrations.RunSQL(_EVENTS, _UNDO.format("carillon_note_jobs()")),
    ]

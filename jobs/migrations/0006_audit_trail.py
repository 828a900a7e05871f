"""The audit trail, and the triggers by which tables tell of their changes (ADR 20); its checkpoints and its retention
(ADR 24)."""

from django.db import migrations, models

from jobs.models.fields import TransactionId

_ACTOR = """
CREATE FUNCTION carillon_actor() RETURNS jsonb LANGUAGE sql STABLE AS $$
    -- What jobs.store.trail.actor said; a setting that lasted for one transaction is empty after it.
    SELECT coalesce(nullif(current_setting('carillon.actor', true), '')::jsonb,
                    jsonb_build_object('kind', 'database', 'name', session_user))
$$;
"""
# TG_ARGV: the kind of object, columns that tell nothing, columns whose values are not kept. Of what is created nothing
# is kept but its name: what it was can be told from what it is and how it was changed. A queue is known by its job type,
# and the installation has no name.
_ROW = """
CREATE FUNCTION carillon_trail() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    untold text[] := string_to_array(TG_ARGV[1], ' ') || '{id,tenant_id,created_at,updated_at}'::text[];
    veiled text[] := string_to_array(TG_ARGV[2], ' ');
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    after jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    present jsonb := coalesce(after, before);
    actor jsonb := carillon_actor();
    done text := CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'DELETE' THEN 'deleted' ELSE 'updated' END;
    told jsonb := '{}';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT coalesce(jsonb_object_agg(key, CASE
                   WHEN key = ANY (veiled) OR length(value::text) > 1000 OR length((before -> key)::text) > 1000
                   THEN 'null'::jsonb ELSE jsonb_build_array(before -> key, value) END), '{}')
        INTO told FROM jsonb_each(after)
        WHERE key <> ALL (untold) AND before -> key IS DISTINCT FROM value;
        IF before ->> 'deleted_at' IS NULL AND after ->> 'deleted_at' IS NOT NULL THEN
            done := 'deleted';
        ELSIF told = '{}' THEN
            RETURN NULL;
        END IF;
    END IF;
    INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(),
            CASE TG_ARGV[0] WHEN 'tenant' THEN present ->> 'id' ELSE present ->> 'tenant_id' END::bigint,
            TG_ARGV[0], coalesce(present ->> 'id', present ->> 'job_type'),
            left(CASE WHEN TG_ARGV[0] = 'api_key' THEN 'ck_' || (present ->> 'prefix') || ' ' ELSE '' END
                 || coalesce(present ->> 'slug', present ->> 'username', present ->> 'name', present ->> 'job_type', TG_ARGV[0]), 200),
            done, left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told);
    RETURN NULL;
END $$;
"""
# Jobs are created in bulk, so by statement.
_CREATED = """
CREATE FUNCTION carillon_trail_created_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    actor jsonb := carillon_actor();
BEGIN
    INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
    SELECT carillon_clock(), tenant_id, 'job', id::text, left(name, 200), 'created', left(actor ->> 'kind', 16),
           left(actor ->> 'name', 200), '{}'
    FROM changed;
    RETURN NULL;
END $$;
"""
# Jobs: none of what materialize, dispatch, claim and finish write, so that they never come near the trigger. That a
# schedule has come to its end, or a deleted job's row is dropped, is nobody's doing.
_JOB_COLUMNS = (
    "name, labels, job_type, payload, schedule_type, cron_expression, cron_dialect, timezone, interval, run_at, starts_at, "
    "ends_at, dst_policy, jitter, priority, timeout, delivery, retry_policy, overlap_policy, max_concurrent, "
    "concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup, status, notify, pause_after_failures, "
    "deleted_at, delete_after"
)
# A tenant's first signing secret belongs to its creation; rekey changes how a secret is sealed, not its version. Rows of
# the installation and of queues are made without telling: they change nothing. Of queues these columns alone are told
# of, so that what dispatch writes never comes near the trigger.
_TABLES = f"""
CREATE TRIGGER jobs_trail_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_trail_created_jobs();
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF {_JOB_COLUMNS} ON jobs_job
    FOR EACH ROW WHEN (NOT (OLD.status = 'active' AND NEW.status = 'completed'))
    EXECUTE FUNCTION carillon_trail(
        'job', 'next_fire_at partition_key watched target expires_at deleted_at', 'payload notify');
CREATE TRIGGER jobs_trail_delete AFTER DELETE ON jobs_job
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION carillon_trail('job', '', '');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        name, job_type, description, timeout, max_in_flight, payload_schema ON jobs_pulltype
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('job_type', '', '');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_tenant
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('tenant', '', '');
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF
        slug, name, status, weight, max_in_flight, max_jobs, max_payload_bytes, rate_per_second, max_backfill, rate_burst,
        require_if_match, all_events, notify, webhook_secret, queues, disabled_types, circuit_breaker ON tenants_tenant
    FOR EACH ROW WHEN (NOT (OLD.webhook_secret = '' AND NEW.webhook_secret <> ''))
    EXECUTE FUNCTION carillon_trail('tenant', 'watched webhook_secret_retires_at', 'notify webhook_secret');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        name, prefix, secret_hash, scopes, rate_per_second, expires_at, revoked_at ON tenants_apikey
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('api_key', 'last_used_at', 'secret_hash');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF name, version, hosts ON tenants_secret
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('secret', 'sealed', '');

CREATE TRIGGER jobs_trail_update AFTER UPDATE OF stopped_at, stopped_by, stop_reason ON jobs_installation
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('installation', '', '');
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF paused_at, paused_by, pause_reason, max_in_flight ON jobs_queue
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('job_type', 'window rate dispatched drained measured_at', '');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OR DELETE ON jobs_targetrule
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('target', 'regex', '');
"""
# An operation is told of when it is begun, paused, resumed and when it ends, however many slices it takes.
_OPERATIONS = """
CREATE FUNCTION carillon_trail_operation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    actor jsonb := carillon_actor();
    told jsonb := jsonb_build_object('filter', jsonb_build_array(NULL, NEW.filter));
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.changes IS NOT NULL THEN
            -- The jobs' own entries hold the values that may be kept.
            told := told || jsonb_build_object('changes', jsonb_build_array(
                NULL, (SELECT jsonb_agg(key ORDER BY key) FROM jsonb_object_keys(NEW.changes) AS key)));
        END IF;
        IF NEW.per_second IS NOT NULL THEN
            told := told || jsonb_build_object('per_second', jsonb_build_array(NULL, NEW.per_second));
        END IF;
    ELSIF NEW.finished_at IS NOT NULL THEN
        told := told || jsonb_build_object(
            'status', jsonb_build_array(
                CASE WHEN OLD.paused_at IS NULL THEN 'running' ELSE 'paused' END,
                CASE WHEN NEW.cancelled THEN 'cancelled' WHEN NEW.checking THEN 'refused' ELSE 'finished' END),
            'done', jsonb_build_array(NULL, NEW.done), 'refused', jsonb_build_array(NULL, NEW.refused));
    ELSE
        told := jsonb_build_object('status', CASE
            WHEN NEW.paused_at IS NULL THEN '["paused", "running"]'::jsonb ELSE '["running", "paused"]'::jsonb END);
    END IF;
    INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(), NEW.tenant_id, 'operation', NEW.id::text, NEW.verb,
            CASE TG_OP WHEN 'INSERT' THEN 'created' ELSE 'updated' END,
            left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told);
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_insert AFTER INSERT ON jobs_operation
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_operation();
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF finished_at, paused_at ON jobs_operation
    FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL
                       OR (OLD.paused_at IS NULL) <> (NEW.paused_at IS NULL))
    EXECUTE FUNCTION carillon_trail_operation();
"""
# A role that owns neither table may call it (``manage.py grant_roles``). Its names are bound when it is made
# (BEGIN ATOMIC), so that nobody who may create functions can put others in their place. Below the floor nothing is ever
# purged: whoever calls it chooses the retention, and its session's clock.
_PURGE = """
CREATE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE BEGIN ATOMIC
    SELECT interval '0';
END;
CREATE FUNCTION carillon_purge_trail(retention interval, most bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp BEGIN ATOMIC
    -- Checkpoints before the last of those whose changes are all past retention and gone.
    DELETE FROM jobs_trailcheckpoint WHERE number < (
        SELECT max(number) FROM jobs_trailcheckpoint gone WHERE number < coalesce((
            SELECT number FROM jobs_trailcheckpoint kept
            WHERE last_at >= least(carillon_now() - retention, statement_timestamp() - carillon_trail_floor())
               OR EXISTS (SELECT FROM jobs_change WHERE xid > kept.after_xid AND xid <= kept.upto_xid)
            ORDER BY number LIMIT 1), 9223372036854775807));
    WITH gone AS (
        DELETE FROM jobs_change WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM jobs_change WHERE xid <= (
                SELECT upto_xid FROM jobs_trailcheckpoint WHERE number < coalesce((
                    SELECT number FROM jobs_trailcheckpoint
                    WHERE last_at >= least(carillon_now() - retention, statement_timestamp() - carillon_trail_floor())
                    ORDER BY number LIMIT 1), 9223372036854775807)
                ORDER BY number DESC LIMIT 1)
            ORDER BY xid, id LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING 1)
    SELECT count(*) FROM gone;
END;
REVOKE EXECUTE ON FUNCTION carillon_purge_trail(interval, bigint) FROM PUBLIC;
"""
_UNDO = "DROP FUNCTION {} CASCADE"


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [
        ("jobs", name)
        for name in [
            "0022_audit_trail",
            "0028_tenants_queues",
            "0030_secret_hosts",
            "0031_trail_checkpoints",
            "0044_actions_on_the_trail",
        ]
    ]
    dependencies = [("jobs", "0005_tables_that_tell")]
    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("xid", TransactionId(db_default=models.Func(function="pg_current_xact_id"), editable=False)),
                ("at", models.DateTimeField()),
                ("tenant_id", models.BigIntegerField(null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("job", "Job"),
                            ("job_type", "Job Type"),
                            ("tenant", "Tenant"),
                            ("api_key", "API key"),
                            ("secret", "Secret"),
                            ("trigger", "Trigger"),
                            ("operation", "Operation"),
                            ("user", "operator"),
                            ("group", "Group"),
                            ("installation", "Installation"),
                            ("target", "Target"),
                        ],
                        max_length=16,
                    ),
                ),
                ("object_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=200)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("created", "Created"),
                            ("updated", "Updated"),
                            ("deleted", "Deleted"),
                            ("run", "Run"),
                            ("replayed", "Replayed"),
                            ("cancelled", "Cancelled"),
                            ("dismissed", "Dismissed"),
                            ("signed_in", "Signed In"),
                            ("signed_out", "Signed Out"),
                            ("sign_in_failed", "Sign In Failed"),
                        ],
                        max_length=16,
                    ),
                ),
                ("actor_kind", models.CharField(max_length=16)),
                ("actor", models.CharField(max_length=200)),
                ("changes", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("tenant_id__isnull", False)),
                        fields=["tenant_id", "xid", "id"],
                        name="change_of_tenant",
                    ),
                    models.Index(
                        condition=models.Q(("object_id__gt", "")),
                        fields=["object_id", "xid", "id"],
                        name="change_of_object",
                    ),
                    models.Index(fields=["actor", "-id"], name="change_by_actor"),
                    models.Index(fields=["xid"], name="change_in_order"),
                    models.Index(
                        condition=models.Q(("tenant_id__isnull", False)),
                        fields=["tenant_id", "-id"],
                        name="change_of_tenant_newest",
                    ),
                    models.Index(
                        condition=models.Q(("kind", "job"), _negated=True),
                        fields=["kind", "-id"],
                        name="change_of_kind",
                    ),
                    models.Index(
                        condition=models.Q(("actor_kind", "api_key"), _negated=True),
                        fields=["actor_kind", "-id"],
                        name="change_by_actor_kind",
                    ),
                    models.Index(
                        condition=models.Q(("action", "created"), _negated=True),
                        fields=["action", "-id"],
                        name="change_of_action",
                    ),
                    models.Index(fields=["at"], name="change_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrailCheckpoint",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("after_xid", TransactionId()),
                ("upto_xid", TransactionId()),
                ("changes", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("last_at", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("key_id", models.CharField(max_length=16)),
                ("seal", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="TrailHead",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("upto_xid", TransactionId()),
                ("last_seal", models.CharField(blank=True, max_length=64)),
                ("key_id", models.CharField(max_length=16)),
                ("seal", models.CharField(max_length=64)),
            ],
        ),
        migrations.RunSQL(_ACTOR, _UNDO.format("carillon_actor()")),
        migrations.RunSQL(_ROW, _UNDO.format("carillon_trail()")),
        migrations.RunSQL(_CREATED, _UNDO.format("carillon_trail_created_jobs()")),
        migrations.RunSQL(_TABLES, migrations.RunSQL.noop),
        migrations.RunSQL(_OPERATIONS, _UNDO.format("carillon_trail_operation()")),
        migrations.RunSQL(
            _PURGE,
            "DROP FUNCTION carillon_purge_trail(interval, bigint); DROP FUNCTION carillon_trail_floor();",
        ),
    ]

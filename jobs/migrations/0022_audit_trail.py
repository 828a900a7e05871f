"""The audit trail, and the triggers by which tables tell of their changes (ADR 20)."""

import jobs.models.fields
from django.db import migrations, models

ACTOR = """
CREATE FUNCTION carillon_actor() RETURNS jsonb LANGUAGE sql STABLE AS $$
    -- What jobs.store.trail.actor said; a setting that lasted for one transaction is empty after it.
    SELECT coalesce(nullif(current_setting('carillon.actor', true), '')::jsonb,
                    jsonb_build_object('kind', 'database', 'name', session_user))
$$;
"""

# TG_ARGV: the kind of object, columns that tell nothing, columns whose values are not kept. Of what is created nothing is
# kept but its name: what it was can be told from what it is and how it was changed.
ROW = """
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
            TG_ARGV[0], present ->> 'id',
            left(CASE WHEN TG_ARGV[0] = 'api_key' THEN 'ck_' || (present ->> 'prefix') || ' ' ELSE '' END
                 || coalesce(present ->> 'slug', present ->> 'username', present ->> 'name'), 200),
            done, left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told);
    RETURN NULL;
END $$;
"""

# Jobs are created in bulk, so by statement.
CREATED = """
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

# TG_ARGV: whom something is given, a user or a group, and what: groups or permissions.
GIVEN = """
CREATE FUNCTION carillon_trail_given() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given jsonb := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    whose bigint := (given ->> (TG_ARGV[0] || '_id'))::bigint;
    actor jsonb := carillon_actor();
    what text;
BEGIN
    IF TG_ARGV[1] = 'groups' THEN
        SELECT name INTO what FROM auth_group WHERE id = (given ->> 'group_id')::bigint;
    ELSE
        SELECT c.app_label || '.' || p.codename INTO what
        FROM auth_permission p JOIN django_content_type c ON c.id = p.content_type_id
        WHERE p.id = (given ->> 'permission_id')::bigint;
    END IF;
    INSERT INTO jobs_change (at, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(), TG_ARGV[0], whose::text,
            coalesce(CASE TG_ARGV[0] WHEN 'user' THEN (SELECT username FROM auth_user WHERE id = whose)
                     ELSE (SELECT name FROM auth_group WHERE id = whose) END, ''),
            'updated', left(actor ->> 'kind', 16), left(actor ->> 'name', 200),
            jsonb_build_object(TG_ARGV[1], CASE TG_OP WHEN 'DELETE' THEN jsonb_build_array(what, NULL)
                                           ELSE jsonb_build_array(NULL, what) END));
    RETURN NULL;
END $$;
"""

# Jobs: none of what materialize, dispatch, claim and finish write, so that they never come near the trigger. That a
# schedule has come to its end is nobody's doing.
JOB_COLUMNS = (
    "name, labels, job_type, payload, schedule_type, cron_expression, cron_dialect, timezone, interval, run_at, starts_at, "
    "ends_at, dst_policy, jitter, priority, timeout, delivery, retry_policy, overlap_policy, max_concurrent, "
    "concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup, status, notify, pause_after_failures, "
    "deleted_at"
)
# A tenant's first signing secret belongs to its creation; rekey changes how a secret is sealed, not its version.
TRIGGERS = f"""
CREATE TRIGGER jobs_trail_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_trail_created_jobs();
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF {JOB_COLUMNS} ON jobs_job
    FOR EACH ROW WHEN (NOT (OLD.status = 'active' AND NEW.status = 'completed'))
    EXECUTE FUNCTION carillon_trail('job', 'next_fire_at partition_key watched target deleted_at', 'payload notify');
CREATE TRIGGER jobs_trail_delete AFTER DELETE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('job', '', '');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        name, job_type, description, timeout, max_in_flight, payload_schema ON jobs_pulltype
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('job_type', '', '');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_tenant
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('tenant', '', '');
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF
        slug, name, status, weight, max_in_flight, max_jobs, max_payload_bytes, rate_per_second, max_backfill, rate_burst,
        require_if_match, all_events, notify, webhook_secret ON tenants_tenant
    FOR EACH ROW WHEN (NOT (OLD.webhook_secret = '' AND NEW.webhook_secret <> ''))
    EXECUTE FUNCTION carillon_trail('tenant', 'watched webhook_secret_retires_at', 'notify webhook_secret');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        name, prefix, secret_hash, scopes, rate_per_second, expires_at, revoked_at ON tenants_apikey
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('api_key', 'last_used_at', 'secret_hash');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF name, version ON tenants_secret
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('secret', 'sealed', '');

CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        username, first_name, last_name, email, password, is_active, is_staff, is_superuser ON auth_user
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('user', 'last_login date_joined', 'password');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE ON auth_group
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('group', '', '');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_user_groups
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('user', 'groups');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_user_user_permissions
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('user', 'permissions');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_group_permissions
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('group', 'permissions');
"""
UNDO = """
DROP FUNCTION carillon_trail() CASCADE;
DROP FUNCTION carillon_trail_created_jobs() CASCADE;
DROP FUNCTION carillon_trail_given() CASCADE;
DROP FUNCTION carillon_actor();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("jobs", "0021_cheap_checks"),
        ("tenants", "0007_key_rates"),
    ]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "xid",
                    jobs.models.fields.TransactionId(
                        db_default=models.Func(function="pg_current_xact_id"), editable=False
                    ),
                ),
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
                            ("user", "operator"),
                            ("group", "Group"),
                        ],
                        max_length=16,
                    ),
                ),
                ("object_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=200)),
                (
                    "action",
                    models.CharField(
                        choices=[("created", "Created"), ("updated", "Updated"), ("deleted", "Deleted")],
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
                    models.Index(fields=["at"], name="change_at"),
                ],
            },
        ),
        migrations.AddField(
            model_name="operation",
            name="asked_by",
            field=models.JSONField(editable=False, null=True),
        ),
        migrations.RunSQL(ACTOR + ROW + CREATED + GIVEN + TRIGGERS, UNDO),
    ]

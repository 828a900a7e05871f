"""The bounds of operators on the audit trail, sign-ins as actions of it, and the right to see payloads."""

from django.db import migrations, models

# An operator is told of as the object; the tenants' slugs as what is given and taken.
_BOUNDS = """
CREATE FUNCTION carillon_trail_bounds() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given jsonb := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    actor jsonb := carillon_actor();
    whose bigint;
    told jsonb;
    what text;
BEGIN
    IF TG_ARGV[0] = 'bound' THEN
        whose := (given ->> 'operator_id')::bigint;
        told := jsonb_build_object('bound', CASE TG_OP WHEN 'DELETE' THEN jsonb_build_array(true, false)
                                                       ELSE jsonb_build_array(false, true) END);
    ELSE
        SELECT operator_id INTO whose FROM tenants_operatorbounds WHERE id = (given ->> 'operatorbounds_id')::bigint;
        SELECT slug INTO what FROM tenants_tenant WHERE id = (given ->> 'tenant_id')::bigint;
        told := jsonb_build_object('tenants', CASE TG_OP WHEN 'DELETE' THEN jsonb_build_array(what, NULL)
                                                         ELSE jsonb_build_array(NULL, what) END);
    END IF;
    INSERT INTO jobs_change (at, kind, object_id, name, action, actor_kind, actor, changes)
    SELECT carillon_clock(), 'user', whose::text,
           coalesce((SELECT username FROM auth_user WHERE id = whose), ''), 'updated',
           left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told
    WHERE whose IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_operatorbounds
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_bounds('bound');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_operatorbounds_tenants
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_bounds('tenants');
"""
_UNDO = "DROP FUNCTION carillon_trail_bounds() CASCADE;"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0053_parked_lanes"), ("tenants", "0012_operator_bounds")]

    operations = [
        migrations.AlterModelOptions(
            "job", {"permissions": (("view_payload", "Can see payloads, results, answers and outputs"),)}
        ),
        migrations.AlterField(
            "change",
            "action",
            models.CharField(
                choices=[
                    ("created", "Created"),
                    ("updated", "Updated"),
                    ("deleted", "Deleted"),
                    ("run", "Run"),
                    ("replayed", "Replayed"),
                    ("cancelled", "Cancelled"),
                    ("signed_in", "Signed In"),
                    ("signed_out", "Signed Out"),
                    ("sign_in_failed", "Sign In Failed"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunSQL(_BOUNDS, _UNDO),
    ]

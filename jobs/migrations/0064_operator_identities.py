"""The subjects that operators are linked to on the audit trail: whoever is linked signs in as that operator."""

from django.db import migrations

_IDENTITIES = """
CREATE FUNCTION carillon_trail_identity() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    identity jsonb := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    before jsonb := CASE TG_OP WHEN 'INSERT' THEN 'null'::jsonb ELSE to_jsonb(OLD) -> 'subject' END;
    after jsonb := CASE TG_OP WHEN 'DELETE' THEN 'null'::jsonb ELSE to_jsonb(NEW) -> 'subject' END;
    actor jsonb := carillon_actor();
BEGIN
    INSERT INTO jobs_change (at, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(), 'user', identity ->> 'operator_id',
            coalesce((SELECT username FROM auth_user WHERE id = (identity ->> 'operator_id')::bigint), ''), 'updated',
            left(actor ->> 'kind', 16), left(actor ->> 'name', 200),
            jsonb_build_object('single_sign_on', jsonb_build_array(before, after)));
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OR DELETE ON tenants_operatoridentity
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_identity();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0063_second_factor"), ("tenants", "0015_operator_identities")]

    operations = [
        migrations.RunSQL(_IDENTITIES, "DROP FUNCTION IF EXISTS carillon_trail_identity() CASCADE;"),
    ]

"""Second factors of operators on the audit trail, and by what a sign-in was, where it was not by the password alone."""

from django.db import migrations

# The operator is told of as the object. Neither the secret nor a recovery code is told: since when there is a factor,
# and how many recovery codes are left. That a code was used is told by the sign-in.
_FACTORS = """
CREATE FUNCTION carillon_trail_second_factor() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    factor jsonb := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    actor jsonb := carillon_actor();
    told jsonb := '{}';
BEGIN
    IF TG_OP = 'INSERT' THEN
        told := jsonb_build_object('second_factor', jsonb_build_array(NULL, NEW.set_up_at));
    ELSIF TG_OP = 'DELETE' THEN
        told := jsonb_build_object('second_factor', jsonb_build_array(OLD.set_up_at, NULL));
    ELSIF OLD.set_up_at IS DISTINCT FROM NEW.set_up_at THEN
        told := jsonb_build_object('second_factor', jsonb_build_array(OLD.set_up_at, NEW.set_up_at));
    ELSIF OLD.recovery IS DISTINCT FROM NEW.recovery THEN
        told := jsonb_build_object('recovery_codes',
                                   jsonb_build_array(cardinality(OLD.recovery), cardinality(NEW.recovery)));
    END IF;
    INSERT INTO jobs_change (at, kind, object_id, name, action, actor_kind, actor, changes)
    SELECT carillon_clock(), 'user', factor ->> 'operator_id',
           coalesce((SELECT username FROM auth_user WHERE id = (factor ->> 'operator_id')::bigint), ''), 'updated',
           left(actor ->> 'kind', 16), left(actor ->> 'name', 200), told
    WHERE told <> '{}';
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OR DELETE ON tenants_secondfactor
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_second_factor();
"""


def _sessions(by: str) -> str:
    """As migration 0054 has it, and ``by`` beside the address."""
    return f"""
CREATE OR REPLACE FUNCTION carillon_trail_session() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    session jsonb := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    actor jsonb := carillon_actor();
BEGIN
    INSERT INTO jobs_change (at, kind, object_id, name, action, actor_kind, actor, changes)
    VALUES (carillon_clock(), 'user', session ->> 'operator_id',
            coalesce((SELECT username FROM auth_user WHERE id = (session ->> 'operator_id')::bigint), ''),
            CASE TG_OP WHEN 'DELETE' THEN 'signed_out' ELSE 'signed_in' END,
            left(actor ->> 'kind', 16), left(actor ->> 'name', 200),
            jsonb_build_object('address', CASE TG_OP WHEN 'DELETE' THEN jsonb_build_array(session -> 'address', NULL)
                                                     ELSE jsonb_build_array(NULL, session -> 'address') END){by});
    RETURN NULL;
END $$;
"""


_BY = """
            || CASE WHEN TG_OP = 'INSERT' AND session ->> 'signed_in_by' <> 'password'
                    THEN jsonb_build_object('by', jsonb_build_array(NULL, session -> 'signed_in_by'))
                    ELSE '{}' END"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0062_run_beside"), ("tenants", "0014_second_factor")]

    operations = [
        migrations.RunSQL(
            _FACTORS + _sessions(_BY),
            _sessions("") + "DROP FUNCTION IF EXISTS carillon_trail_second_factor() CASCADE;",
        ),
    ]

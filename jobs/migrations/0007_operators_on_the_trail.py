"""Operators on the audit trail: their accounts, rights, bounds, sessions, second factors and identities."""

from django.db import migrations

_ACCOUNTS = """
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF
        username, first_name, last_name, email, password, is_active, is_staff, is_superuser ON auth_user
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('user', 'last_login date_joined', 'password');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE ON auth_group
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('group', '', '');
"""
# TG_ARGV: whom something is given, a user or a group, and what: groups or permissions.
_RIGHTS = """
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
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_user_groups
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('user', 'groups');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_user_user_permissions
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('user', 'permissions');
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON auth_group_permissions
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_given('group', 'permissions');
"""
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
# A session's row comes with a sign-in and goes with the session. That it was seen is nobody's business. By what a
# sign-in was is told where it was not by the password alone.
_SESSIONS = """
CREATE FUNCTION carillon_trail_session() RETURNS trigger LANGUAGE plpgsql AS $$
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
                                                     ELSE jsonb_build_array(NULL, session -> 'address') END)
            || CASE WHEN TG_OP = 'INSERT' AND session ->> 'signed_in_by' <> 'password'
                    THEN jsonb_build_object('by', jsonb_build_array(NULL, session -> 'signed_in_by'))
                    ELSE '{}' END);
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_operatorsession
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_session();
"""
# The operator is told of as the object. Neither the secret nor a recovery code is told: since when there is a factor,
# and how many recovery codes are left. That a code was used is told by the sign-in.
_SECOND_FACTORS = """
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
# The subjects that operators are linked to: whoever is linked signs in as that operator.
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
_UNDO = "DROP FUNCTION {} CASCADE"


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [("jobs", name) for name in ["0054_access", "0063_second_factor", "0064_operator_identities"]]
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("jobs", "0006_audit_trail"),
        ("tenants", "0001_initial"),
    ]
    operations = [
        migrations.RunSQL(
            _ACCOUNTS, "DROP TRIGGER jobs_trail_rows ON auth_user; DROP TRIGGER jobs_trail_rows ON auth_group"
        ),
        migrations.RunSQL(_RIGHTS, _UNDO.format("carillon_trail_given()")),
        migrations.RunSQL(_BOUNDS, _UNDO.format("carillon_trail_bounds()")),
        migrations.RunSQL(_SESSIONS, _UNDO.format("carillon_trail_session()")),
        migrations.RunSQL(_SECOND_FACTORS, _UNDO.format("carillon_trail_second_factor()")),
        migrations.RunSQL(_IDENTITIES, _UNDO.format("carillon_trail_identity()")),
    ]

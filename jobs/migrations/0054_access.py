"""The bounds and sessions of operators on the audit trail, its filters' indexes, and the right to see payloads.

Indexes are made concurrently: the trail is written meanwhile. May be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models
from django.db.models import Q

_parked_lanes = import_module("jobs.migrations.0053_parked_lanes")
_INDEXES = (
    models.Index(
        fields=["tenant_id", "-id"], condition=Q(("tenant_id__isnull", False)), name="change_of_tenant_newest"
    ),
    models.Index(fields=["kind", "-id"], condition=Q(("kind", "job"), _negated=True), name="change_of_kind"),
    models.Index(
        fields=["actor_kind", "-id"],
        condition=Q(("actor_kind", "api_key"), _negated=True),
        name="change_by_actor_kind",
    ),
    models.Index(
        fields=["action", "-id"], condition=Q(("action", "created"), _negated=True), name="change_of_action"
    ),
)


def make(apps: Any, schema_editor: Any) -> None:
    for index in _INDEXES:
        _parked_lanes._ensure(index, apps, schema_editor, model="Change")


def drop(apps: Any, schema_editor: Any) -> None:
    for index in _INDEXES:
        _parked_lanes._drop(index, schema_editor)


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
# A session's row comes with a sign-in and goes with the session. That it was seen is nobody's business.
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
                                                     ELSE jsonb_build_array(NULL, session -> 'address') END));
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE ON tenants_operatorsession
    FOR EACH ROW EXECUTE FUNCTION carillon_trail_session();
"""
_UNDO = "DROP FUNCTION IF EXISTS carillon_trail_bounds() CASCADE; DROP FUNCTION IF EXISTS carillon_trail_session() CASCADE;"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0053_parked_lanes"), ("tenants", "0013_operator_sessions")]

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
        migrations.RunSQL(_UNDO + _BOUNDS + _SESSIONS, _UNDO),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, drop)],
            state_operations=[migrations.AddIndex("change", index) for index in _INDEXES],
        ),
    ]

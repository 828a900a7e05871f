"""Operations that edit, cancel triggers, keep a pace and pause; the audit trail tells of each."""

import datetime
from importlib import import_module

from django.db import migrations, models

# As in migration 0044, with what an edit changes, how fast it goes on, and whether it is paused.
_OPERATIONS = """
CREATE OR REPLACE FUNCTION carillon_trail_operation() RETURNS trigger LANGUAGE plpgsql AS $$
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
DROP TRIGGER jobs_trail_update ON jobs_operation;
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF finished_at, paused_at ON jobs_operation
    FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL
                       OR (OLD.paused_at IS NULL) <> (NEW.paused_at IS NULL))
    EXECUTE FUNCTION carillon_trail_operation();
"""
_AS_BEFORE = import_module("jobs.migrations.0044_actions_on_the_trail")
_UNDO = _AS_BEFORE._UNDO + _AS_BEFORE._OPERATIONS


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0045_traces"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="operation",
            name="operation_verb_known",
        ),
        migrations.RemoveConstraint(
            model_name="operation",
            name="operation_times_between_2000_and_2100",
        ),
        migrations.AddField(
            model_name="operation",
            name="all_or_nothing",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="operation",
            name="changes",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="checked",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="operation",
            name="checking",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="operation",
            name="next_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="paused_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="operation",
            name="per_second",
            field=models.FloatField(null=True),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("verb__in", ["pause", "resume", "cancel", "delete", "edit", "replay", "cancel_triggers"])
                ),
                name="operation_verb_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("created_at__isnull", True),
                        models.Q(
                            (
                                "created_at__gte",
                                datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                            (
                                "created_at__lte",
                                datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                        ),
                        _connector="OR",
                    ),
                    models.Q(
                        ("updated_at__isnull", True),
                        models.Q(
                            (
                                "updated_at__gte",
                                datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                            (
                                "updated_at__lte",
                                datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                        ),
                        _connector="OR",
                    ),
                    models.Q(
                        ("next_at__isnull", True),
                        models.Q(
                            (
                                "next_at__gte",
                                datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                            (
                                "next_at__lte",
                                datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                        ),
                        _connector="OR",
                    ),
                    models.Q(
                        ("paused_at__isnull", True),
                        models.Q(
                            (
                                "paused_at__gte",
                                datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                            (
                                "paused_at__lte",
                                datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                        ),
                        _connector="OR",
                    ),
                    models.Q(
                        ("finished_at__isnull", True),
                        models.Q(
                            (
                                "finished_at__gte",
                                datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                            (
                                "finished_at__lte",
                                datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            ),
                        ),
                        _connector="OR",
                    ),
                ),
                name="operation_times_between_2000_and_2100",
            ),
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
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
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
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
        ),
        migrations.RunSQL(_OPERATIONS, _UNDO),
    ]

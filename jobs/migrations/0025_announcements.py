"""Dispatch hears of new work instead of looking through all lanes: what becomes dispatchable is stamped."""

from django.db import migrations, models

import jobs.models.fields

ANNOUNCE = """
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
UNDO = """
DROP TRIGGER jobs_trigger_announce ON jobs_trigger;
DROP FUNCTION carillon_announce();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0024_worker_process"), ("tenants", "0007_key_rates")]

    operations = [
        migrations.RemoveIndex(model_name="trigger", name="trigger_unfinished_of_job"),
        migrations.AddIndex(
            model_name="trigger",
            index=models.Index(
                condition=models.Q(("phase__in", ("pending", "retrying", "in_flight"))),
                fields=["job", "phase", "scheduled_for"],
                name="trigger_unfinished_of_job",
            ),
        ),
        # In two steps: with a default of its own for each row, the new column would have the whole table written anew.
        migrations.AddField(
            model_name="trigger",
            name="announced_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="trigger",
            name="announced_at",
            field=models.DateTimeField(blank=True, db_default=jobs.models.fields.Clock(), null=True),
        ),
        migrations.AddIndex(
            model_name="trigger",
            index=models.Index(
                condition=models.Q(
                    ("held", False), ("phase__in", ("pending", "retrying")), ("announced_at__isnull", False)
                ),
                fields=["announced_at"],
                name="trigger_announced",
            ),
        ),
        migrations.RunSQL(ANNOUNCE, UNDO),
    ]

"""How many living jobs each tenant has, kept by the table itself."""

from django.db import migrations, models

# By statement where rows come and go in bulk, by row where one is deleted softly: a statement-level trigger of UPDATE
# would collect the rows of every step of the materializer.
TALLY = """
CREATE FUNCTION carillon_tally_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_jobtally;
    WHEN 'UPDATE' THEN
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        VALUES (NEW.tenant_id, pg_backend_pid() % 64, CASE WHEN NEW.deleted_at IS NULL THEN 1 ELSE -1 END)
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    ELSE
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        SELECT tenant_id, pg_backend_pid() % 64, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * count(*)
        FROM changed WHERE deleted_at IS NULL GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_tally_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_delete AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_update AFTER UPDATE OF deleted_at ON jobs_job
    FOR EACH ROW WHEN ((OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION carillon_tally_jobs();
CREATE TRIGGER jobs_tally_truncate AFTER TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_jobs();
INSERT INTO jobs_jobtally (tenant_id, stripe, jobs)
SELECT tenant_id, 0, count(*) FROM jobs_job WHERE deleted_at IS NULL GROUP BY tenant_id;
"""
UNDO = """
DROP TRIGGER jobs_tally_insert ON jobs_job;
DROP TRIGGER jobs_tally_delete ON jobs_job;
DROP TRIGGER jobs_tally_update ON jobs_job;
DROP TRIGGER jobs_tally_truncate ON jobs_job;
DROP FUNCTION carillon_tally_jobs();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0008_effects")]

    operations = [
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
        ),
        migrations.RunSQL(TALLY, UNDO),
    ]

"""How much is kept of each tenant's answers to calls with an ``Idempotency-Key``, counted by the table itself."""

from django.db import migrations, models

# An answer counts by its body, and by 500 bytes for the rest of its row. By statement where rows come and go; by row
# where one that is past its time gives way.
TALLY = """
CREATE FUNCTION carillon_tally_answers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_answertally;
    WHEN 'UPDATE' THEN
        INSERT INTO jobs_answertally AS t (tenant_id, stripe, bytes)
        VALUES (NEW.tenant_id, pg_backend_pid() % 64, octet_length(NEW.body) - octet_length(OLD.body))
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    ELSE
        INSERT INTO jobs_answertally AS t (tenant_id, stripe, bytes)
        SELECT tenant_id, pg_backend_pid() % 64,
               CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * sum(500 + octet_length(body))
        FROM changed GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER answers_tally_insert AFTER INSERT ON jobs_answer REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_delete AFTER DELETE ON jobs_answer REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_update AFTER UPDATE OF body ON jobs_answer
    FOR EACH ROW WHEN (octet_length(OLD.body) <> octet_length(NEW.body))
    EXECUTE FUNCTION carillon_tally_answers();
CREATE TRIGGER answers_tally_truncate AFTER TRUNCATE ON jobs_answer
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_tally_answers();
INSERT INTO jobs_answertally (tenant_id, stripe, bytes)
SELECT tenant_id, 0, sum(500 + octet_length(body)) FROM jobs_answer GROUP BY tenant_id;
"""
UNDO = """
DROP TRIGGER answers_tally_insert ON jobs_answer;
DROP TRIGGER answers_tally_delete ON jobs_answer;
DROP TRIGGER answers_tally_update ON jobs_answer;
DROP TRIGGER answers_tally_truncate ON jobs_answer;
DROP FUNCTION carillon_tally_answers();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0028_tenants_queues")]

    operations = [
        migrations.CreateModel(
            name="AnswerTally",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "stripe", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("stripe", models.PositiveSmallIntegerField()),
                ("bytes", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(TALLY, UNDO),
    ]

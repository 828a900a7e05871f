"""Ended jobs leave: they do not count as living, are deleted after their time, and dropped once their history is gone.

No row is rewritten but those of ended jobs, which nobody else writes. Indexes are made while claims and edits go on.
May be run again after it was stopped halfway.
"""

from importlib import import_module
from typing import Any

from django.db import migrations, models

_attempts = import_module("jobs.migrations.0039_failed_attempts")
_trail = import_module("jobs.migrations.0022_audit_trail")
_INDEXES = {
    "job_expires": ("expires_at", "expires_at IS NOT NULL AND deleted_at IS NULL"),
    "job_deleted": ("deleted_at", "deleted_at IS NOT NULL"),
}
_COLUMNS = """
ALTER TABLE jobs_job ADD COLUMN IF NOT EXISTS delete_after interval,
    ADD COLUMN IF NOT EXISTS expires_at timestamptz
"""
#: As in migration 0009, of jobs that are neither deleted nor ended.
_LIVES = "{row}.deleted_at IS NULL AND {row}.status IN ('active', 'paused')"
_TALLY = f"""
CREATE OR REPLACE FUNCTION carillon_tally_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_jobtally;
    WHEN 'UPDATE' THEN
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        VALUES (NEW.tenant_id, pg_backend_pid() % 64, CASE WHEN {_LIVES.format(row="NEW")} THEN 1 ELSE -1 END)
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    ELSE
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        SELECT tenant_id, pg_backend_pid() % 64, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * count(*)
        FROM changed WHERE {_LIVES.format(row="changed")} GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    END CASE;
    RETURN NULL;
END $$;
DROP TRIGGER jobs_tally_update ON jobs_job;
CREATE TRIGGER jobs_tally_update AFTER UPDATE OF deleted_at, status ON jobs_job
    FOR EACH ROW WHEN (({_LIVES.format(row="OLD")}) <> ({_LIVES.format(row="NEW")}))
    EXECUTE FUNCTION carillon_tally_jobs();
DELETE FROM jobs_jobtally;
INSERT INTO jobs_jobtally (tenant_id, stripe, jobs)
SELECT tenant_id, 0, count(*) FROM jobs_job WHERE {_LIVES.format(row="jobs_job")} GROUP BY tenant_id;
"""
#: As in migration 0022, with the new columns. That a deleted job's row is dropped is nobody's doing.
_TRAIL = f"""
DROP TRIGGER jobs_trail_update ON jobs_job;
CREATE TRIGGER jobs_trail_update AFTER UPDATE OF {_trail.JOB_COLUMNS}, delete_after ON jobs_job
    FOR EACH ROW WHEN (NOT (OLD.status = 'active' AND NEW.status = 'completed'))
    EXECUTE FUNCTION carillon_trail(
        'job', 'next_fire_at partition_key watched target expires_at deleted_at', 'payload notify');
DROP TRIGGER jobs_trail_delete ON jobs_job;
CREATE TRIGGER jobs_trail_delete AFTER DELETE ON jobs_job
    FOR EACH ROW WHEN (OLD.deleted_at IS NULL) EXECUTE FUNCTION carillon_trail('job', '', '');
"""
#: Whoever has ended jobs by now has them as long again.
_ENDED = """
UPDATE jobs_job SET expires_at = carillon_clock() + interval '30 days'
WHERE status IN ('completed', 'cancelled') AND deleted_at IS NULL AND expires_at IS NULL
"""


def add(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        _attempts._briefly(cursor, _COLUMNS)
        with _attempts._bounded(cursor, "0"):
            for name, (column, condition) in _INDEXES.items():
                cursor.execute(_attempts._IS_VALID, [name])
                if cursor.fetchone() == (False,):
                    cursor.execute(f"DROP INDEX CONCURRENTLY {name}")
                cursor.execute(
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON jobs_job ({column}) WHERE {condition}"
                )
            cursor.execute(_ENDED)
            cursor.execute(f"BEGIN; SET LOCAL lock_timeout = '2s'; {_TALLY} {_TRAIL} COMMIT")


def drop(apps: Any, schema_editor: Any) -> None:
    raise NotImplementedError("Ended jobs that were dropped do not come back: restore a backup.")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0064_operator_identities")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(add, drop)],
            state_operations=[
                migrations.AddField("job", "delete_after", models.DurationField(blank=True, null=True)),
                migrations.AddField(
                    "job", "expires_at", models.DateTimeField(blank=True, editable=False, null=True)
                ),
                migrations.AddIndex(
                    "job",
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", True), ("expires_at__isnull", False)),
                        fields=["expires_at"],
                        name="job_expires",
                    ),
                ),
                migrations.AddIndex(
                    "job",
                    models.Index(
                        condition=models.Q(("deleted_at__isnull", False)), fields=["deleted_at"], name="job_deleted"
                    ),
                ),
            ],
        ),
    ]

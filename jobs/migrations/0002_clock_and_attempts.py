"""The clock every statement asks, and the attempts' partitioned table."""

from django.db import migrations

# carillon_now() is STABLE, so that an index condition can use it; carillon_clock() moves within a statement, as leases
# need. Both add the session's carillon.clock_offset: a clock that tests can set, zero everywhere else.
CLOCK = """
CREATE FUNCTION carillon_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp()
           + coalesce(nullif(current_setting('carillon.clock_offset', true), ''), '0')::interval
$$;
CREATE FUNCTION carillon_clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT clock_timestamp()
           + coalesce(nullif(current_setting('carillon.clock_offset', true), ''), '0')::interval
$$;
"""

ATTEMPTS = """
CREATE TABLE jobs_attempt (
    id uuid NOT NULL,
    trigger_id uuid NOT NULL,
    job_id uuid NOT NULL,
    tenant_id bigint NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    fence integer NOT NULL CHECK (fence >= 0),
    worker varchar(200) NOT NULL,
    celery_task_id varchar(64) NOT NULL DEFAULT '',
    state varchar(16) NOT NULL CHECK (state IN
        ('started', 'succeeded', 'failed', 'timed_out', 'lost', 'stale', 'cancelled')),
    started_at timestamptz NOT NULL CHECK (started_at BETWEEN '2000-01-01Z' AND '2100-01-01Z'),
    finished_at timestamptz CHECK (finished_at BETWEEN '2000-01-01Z' AND '2100-01-01Z'),
    duration interval,
    error_code varchar(64) NOT NULL DEFAULT '',
    error_class varchar(200) NOT NULL DEFAULT '',
    error_message varchar(2000) NOT NULL DEFAULT '',
    traceback text NOT NULL DEFAULT '' CHECK (length(traceback) <= 16384),
    http_status smallint,
    response_excerpt text NOT NULL DEFAULT '' CHECK (length(response_excerpt) <= 16384),
    PRIMARY KEY (id, started_at)
) PARTITION BY RANGE (started_at);

-- GET /triggers/{id}/attempts; store/sql/reap.sql: reap_running.
CREATE INDEX jobs_attempt_trigger ON jobs_attempt (trigger_id, number);
-- GET /jobs/{id}/attempts, newest first. The condition always holds; it only keeps the planner from skip-scanning this
-- index for statements that look attempts up by id.
CREATE INDEX jobs_attempt_job ON jobs_attempt (job_id, id DESC)
    WHERE job_id > '00000000-0000-0000-0000-000000000000';

-- What no other partition takes: a clock far off, or weeks without a beat to prepare partitions.
CREATE TABLE jobs_attempt_default PARTITION OF jobs_attempt DEFAULT;

-- An attempt is written at its start and at its end: with room left on the page the second write touches no index.
DO $$
DECLARE monday timestamptz;
BEGIN
    FOR week IN 0..4 LOOP
        monday := (date_trunc('week', now() AT TIME ZONE 'UTC') + week * interval '7 days') AT TIME ZONE 'UTC';
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF jobs_attempt FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 50)',
            'jobs_attempt_' || to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'), monday, monday + interval '7 days');
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.RunSQL(CLOCK, "DROP FUNCTION carillon_now(); DROP FUNCTION carillon_clock();"),
        migrations.RunSQL(ATTEMPTS, "DROP TABLE jobs_attempt;"),
    ]

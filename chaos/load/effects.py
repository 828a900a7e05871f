"""The table in which ``exactly_once`` jobs make their effects."""

CREATE = "CREATE TABLE chaos_effect (job_id uuid NOT NULL, scheduled_for timestamptz NOT NULL)"
INSERT = "INSERT INTO chaos_effect VALUES (%s, %s)"
COUNT = "SELECT job_id::text, scheduled_for, count(*) FROM chaos_effect GROUP BY 1, 2"

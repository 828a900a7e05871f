"""Checkpoints of the audit trail, and its retention as a function of its owner's (ADR 24)."""

import jobs.models.fields
from django.db import migrations, models

# A role that owns neither table may call it (``manage.py grant_roles``). Its names are bound when it is made (BEGIN ATOMIC),
# so that nobody who may create functions can put others in their place. Below the floor nothing is ever purged: whoever
# calls it chooses the retention, and its session's clock.
PURGE = """
CREATE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE BEGIN ATOMIC
    SELECT interval '0';
END;
CREATE FUNCTION carillon_purge_trail(retention interval, most bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp BEGIN ATOMIC
    -- Checkpoints before the last of those whose changes are all past retention and gone.
    DELETE FROM jobs_trailcheckpoint WHERE number < (
        SELECT max(number) FROM jobs_trailcheckpoint gone WHERE number < coalesce((
            SELECT number FROM jobs_trailcheckpoint kept
            WHERE last_at >= least(carillon_now() - retention, statement_timestamp() - carillon_trail_floor())
               OR EXISTS (SELECT FROM jobs_change WHERE xid > kept.after_xid AND xid <= kept.upto_xid)
            ORDER BY number LIMIT 1), 9223372036854775807));
    WITH gone AS (
        DELETE FROM jobs_change WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM jobs_change WHERE xid <= (
                SELECT upto_xid FROM jobs_trailcheckpoint WHERE number < coalesce((
                    SELECT number FROM jobs_trailcheckpoint
                    WHERE last_at >= least(carillon_now() - retention, statement_timestamp() - carillon_trail_floor())
                    ORDER BY number LIMIT 1), 9223372036854775807)
                ORDER BY number DESC LIMIT 1)
            ORDER BY xid, id LIMIT most FOR UPDATE SKIP LOCKED))
        RETURNING 1)
    SELECT count(*) FROM gone;
END;
REVOKE EXECUTE ON FUNCTION carillon_purge_trail(interval, bigint) FROM PUBLIC;
"""
UNDO = """
DROP FUNCTION carillon_purge_trail(interval, bigint);
DROP FUNCTION carillon_trail_floor();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0030_secret_hosts")]

    operations = [
        migrations.CreateModel(
            name="TrailCheckpoint",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("after_xid", jobs.models.fields.TransactionId()),
                ("upto_xid", jobs.models.fields.TransactionId()),
                ("changes", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("last_at", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("key_id", models.CharField(max_length=16)),
                ("seal", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="TrailHead",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("upto_xid", jobs.models.fields.TransactionId()),
                ("last_seal", models.CharField(blank=True, max_length=64)),
                ("key_id", models.CharField(max_length=16)),
                ("seal", models.CharField(max_length=64)),
            ],
        ),
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["xid"], name="change_in_order"),
        ),
        migrations.RunSQL(PURGE, UNDO),
    ]

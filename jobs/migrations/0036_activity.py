"""What happened, counted by tenant and job type: by the minute, by the hour, and in all for ``/metrics`` (ADR 26)."""

from django.db import migrations, models

KINDS = """
    created withdrawn dispatched handed_back messages_lost started ended_succeeded ended_failed
    ended_timed_out ended_lost ended_stale ended_cancelled retried cancelled replayed buried_exhausted
    buried_permanent buried_poison buried_lost skipped_misfire skipped_coalesced skipped_overlap
    skipped_collapsed skipped_paused skipped_frozen duplicates_prevented lag_us duration_us lag_0 lag_1
    lag_2 lag_3 lag_4 lag_5 lag_6 lag_7 lag_8 lag_9 lag_10 lag_11 lag_12 lag_13 lag_14 lag_15 lag_16 lag_17
    lag_18 lag_19 lag_20 duration_0 duration_1 duration_2 duration_3 duration_4 duration_5 duration_6
    duration_7 duration_8 duration_9 duration_10 duration_11 duration_12 duration_13 duration_14 duration_15
    duration_16 duration_17 duration_18 duration_19 duration_20
""".split()
COUNTS = ", ".join(f"{kind} bigint" for kind in KINDS)

# Processes add to the present minute's rows each second: with room left on the page that touches no index.
TABLES = f"""
CREATE TABLE jobs_activityminute (
    minute timestamptz NOT NULL, tenant_id bigint NOT NULL, job_type varchar(63) NOT NULL, {COUNTS},
    PRIMARY KEY (minute, tenant_id, job_type)
) PARTITION BY RANGE (minute);
CREATE TABLE jobs_activityminute_default PARTITION OF jobs_activityminute DEFAULT;
CREATE TABLE jobs_activityhour (
    hour timestamptz NOT NULL, tenant_id bigint NOT NULL, job_type varchar(63) NOT NULL, {COUNTS},
    PRIMARY KEY (hour, tenant_id, job_type)
) PARTITION BY RANGE (hour);
CREATE TABLE jobs_activityhour_default PARTITION OF jobs_activityhour DEFAULT;

DO $$
DECLARE since timestamptz;
BEGIN
    FOR day IN 0..2 LOOP
        since := (date_trunc('day', now() AT TIME ZONE 'UTC') + day * interval '1 day') AT TIME ZONE 'UTC';
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF jobs_activityminute FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 50)',
            'jobs_activityminute_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'), since, since + interval '1 day');
    END LOOP;
    FOR week IN 0..2 LOOP
        since := (date_trunc('week', now() AT TIME ZONE 'UTC') + week * interval '7 days') AT TIME ZONE 'UTC';
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF jobs_activityhour FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 50)',
            'jobs_activityhour_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'), since, since + interval '7 days');
    END LOOP;
END $$;
"""


def _counts() -> list[tuple[str, models.Field]]:
    return [(kind, models.BigIntegerField(null=True)) for kind in KINDS]


def _table(name: str, *key: tuple[str, models.Field]) -> migrations.CreateModel:
    names = [column for column, _ in key]
    primary = models.CompositePrimaryKey(*names, blank=True, editable=False, primary_key=True, serialize=False)
    return migrations.CreateModel(name=name, fields=[("pk", primary), *key, *_counts()])


def _of_tenant() -> tuple[tuple[str, models.Field], ...]:
    return (("tenant_id", models.BigIntegerField()), ("job_type", models.CharField(max_length=63)))


class Migration(migrations.Migration):
    dependencies = [("jobs", "0035_claimed_with")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                _table("ActivityMinute", ("minute", models.DateTimeField()), *_of_tenant()),
                _table("ActivityHour", ("hour", models.DateTimeField()), *_of_tenant()),
            ],
            database_operations=[
                migrations.RunSQL(TABLES, "DROP TABLE jobs_activityminute; DROP TABLE jobs_activityhour;")
            ],
        ),
        _table("ActivityTotal", *_of_tenant()),
        migrations.CreateModel(
            name="MetricTenant",
            fields=[
                ("tenant_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("named_at", models.DateTimeField()),
            ],
        ),
        migrations.RunSQL("ALTER TABLE jobs_activitytotal SET (fillfactor = 50);", migrations.RunSQL.noop),
    ]

"""Attempts, and what happened counted by tenant and job type: by the minute, by the hour, and in all for ``/metrics``
(ADR 26). All but the last are partitioned by time, so that retention drops partitions (ADR 3)."""

from django.db import migrations, models

from jobs.models.fields import new_id

_ATTEMPTS = """
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
    -- With how many others its trigger was claimed: a crash is charged to its cause alone.
    claimed_with integer NOT NULL DEFAULT 0,
    -- What its handler said.
    output text CONSTRAINT jobs_attempt_output_bounded CHECK (octet_length(output) <= 65536),
    PRIMARY KEY (id, started_at)
) PARTITION BY RANGE (started_at);

-- GET /triggers/{id}/attempts; store/sql/reap.sql: reap_running.
CREATE INDEX jobs_attempt_trigger ON jobs_attempt (trigger_id, number);
-- GET /jobs/{id}/attempts, newest first. The condition always holds; it only keeps the planner from skip-scanning this
-- index for statements that look attempts up by id.
CREATE INDEX jobs_attempt_job ON jobs_attempt (job_id, id DESC)
    WHERE job_id > '00000000-0000-0000-0000-000000000000';
-- GET /attempts: those of a tenant that went wrong, newest first. What is no success has an error code. The end of a
-- success leaves its own empty, and so touches no index. Ascending: at the end of what a tenant has, pages are filled
-- before they are split.
CREATE INDEX jobs_attempt_failed ON jobs_attempt (tenant_id, id) WHERE error_code <> '';

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
_KINDS = """
    created withdrawn dispatched handed_back messages_lost started ended_succeeded ended_failed
    ended_timed_out ended_lost ended_stale ended_cancelled retried cancelled replayed buried_exhausted
    buried_permanent buried_poison buried_lost skipped_misfire skipped_coalesced skipped_overlap
    skipped_collapsed skipped_paused skipped_frozen duplicates_prevented lag_us duration_us lag_0 lag_1
    lag_2 lag_3 lag_4 lag_5 lag_6 lag_7 lag_8 lag_9 lag_10 lag_11 lag_12 lag_13 lag_14 lag_15 lag_16 lag_17
    lag_18 lag_19 lag_20 duration_0 duration_1 duration_2 duration_3 duration_4 duration_5 duration_6
    duration_7 duration_8 duration_9 duration_10 duration_11 duration_12 duration_13 duration_14 duration_15
    duration_16 duration_17 duration_18 duration_19 duration_20
""".split()
_COUNTS = ", ".join(f"{kind} bigint" for kind in _KINDS)

_TROUBLES = (
    "skipped_misfire",
    "skipped_coalesced",
    "skipped_overlap",
    "ended_lost",
    "buried_exhausted",
    "buried_permanent",
    "buried_poison",
    "buried_lost",
)
# Processes add to the present minute's rows each second: with room left on the page that touches no index.
_ACTIVITY = f"""
CREATE TABLE jobs_activityminute (
    minute timestamptz NOT NULL, tenant_id bigint NOT NULL, job_type varchar(63) NOT NULL, {_COUNTS},
    PRIMARY KEY (minute, tenant_id, job_type)
) PARTITION BY RANGE (minute);
-- Which minutes had troubles, for the console (store/sql/overview.sql: troubles).
CREATE INDEX activityminute_troubled ON jobs_activityminute (minute, tenant_id)
    WHERE coalesce({", ".join(_TROUBLES)}) IS NOT NULL;
CREATE TABLE jobs_activityminute_default PARTITION OF jobs_activityminute DEFAULT;
CREATE TABLE jobs_activityhour (
    hour timestamptz NOT NULL, tenant_id bigint NOT NULL, job_type varchar(63) NOT NULL, {_COUNTS},
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
_TOTALS = "ALTER TABLE jobs_activitytotal SET (fillfactor = 50)"


def _counts() -> list[tuple[str, models.Field]]:
    return [(kind, models.BigIntegerField(null=True)) for kind in _KINDS]


def _table(name: str, *key: tuple[str, models.Field]) -> migrations.CreateModel:
    names = [column for column, _ in key]
    primary = models.CompositePrimaryKey(
        *names, blank=True, editable=False, primary_key=True, serialize=False
    )
    return migrations.CreateModel(name=name, fields=[("pk", primary), *key, *_counts()])


def _of_tenant() -> tuple[tuple[str, models.Field], ...]:
    return (("tenant_id", models.BigIntegerField()), ("job_type", models.CharField(max_length=63)))


class Migration(migrations.Migration):
    # A database made by these, which came before the first release, has what this makes.
    replaces = [
        ("jobs", name)
        for name in [
            "0002_clock_and_attempts",
            "0007_suspects",
            "0035_claimed_with",
            "0036_activity",
            "0039_failed_attempts",
            "0049_output",
            "0055_overview",
        ]
    ]
    dependencies = [("jobs", "0002_triggers")]
    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "trigger",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.DO_NOTHING,
                        related_name="attempts",
                        to="jobs.trigger",
                    ),
                ),
                ("job_id", models.UUIDField()),
                ("tenant_id", models.BigIntegerField()),
                ("number", models.PositiveIntegerField()),
                ("fence", models.PositiveIntegerField()),
                ("worker", models.CharField(max_length=200)),
                ("celery_task_id", models.CharField(blank=True, max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("started", "started"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("timed_out", "timed out"),
                            ("lost", "lost"),
                            ("stale", "stale"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=16,
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("duration", models.DurationField(blank=True, null=True)),
                ("error_code", models.CharField(blank=True, max_length=64)),
                ("error_class", models.CharField(blank=True, max_length=200)),
                ("error_message", models.CharField(blank=True, max_length=2000)),
                ("traceback", models.TextField(blank=True)),
                ("http_status", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("response_excerpt", models.TextField(blank=True)),
                ("claimed_with", models.PositiveIntegerField(db_default=0, default=0)),
                ("output", models.TextField(editable=False, null=True)),
            ],
            options={
                "db_table": "jobs_attempt",
                "managed": False,
            },
        ),
        migrations.RunSQL(_ATTEMPTS, "DROP TABLE jobs_attempt"),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                _table("ActivityMinute", ("minute", models.DateTimeField()), *_of_tenant()),
                _table("ActivityHour", ("hour", models.DateTimeField()), *_of_tenant()),
            ],
            database_operations=[
                migrations.RunSQL(_ACTIVITY, "DROP TABLE jobs_activityminute; DROP TABLE jobs_activityhour;")
            ],
        ),
        _table("ActivityTotal", *_of_tenant()),
        migrations.RunSQL(_TOTALS, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="MetricTenant",
            fields=[
                ("tenant_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("named_at", models.DateTimeField()),
            ],
        ),
    ]

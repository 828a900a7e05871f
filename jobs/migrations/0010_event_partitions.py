"""The event feed is partitioned by day, and marks tell between which times the events after a place lie (ADR 33).

The table that was there becomes the new one's first partition, and goes as a whole when its last row is past retention.
All that takes long is done beside those who write: an index, and a CHECK that spares the attachment its look at every
row. One short transaction does the rest. May be begun again after any of its statements; a run that was stopped has to
be, within ``_DAYS``, since the CHECK stands from then on.

Processes of 0.1.0 insert and read as before. They delete by the place of a row (``ctid``), which in a partitioned table
names a row of each partition: the rule makes that delete nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, migrations, models, transaction

from jobs.models.fields import TransactionId

#: How long the old table goes on taking rows.
_DAYS = 14
_UNTIL = "SELECT (date_trunc('day', now() AT TIME ZONE 'UTC') + make_interval(days => %s)) AT TIME ZONE 'UTC'"
_IS_DONE = "SELECT relkind = 'p' FROM pg_class WHERE oid = 'jobs_event'::regclass"
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('event_before_key')"
_INDEX = "CREATE UNIQUE INDEX CONCURRENTLY event_before_key ON jobs_event (xid, id, at)"
_BOUND = (
    # Of a run that was stopped.
    "-- squawk-ignore ban-drop-constraint\nALTER TABLE jobs_event DROP CONSTRAINT IF EXISTS event_before_at",
    "ALTER TABLE jobs_event ADD CONSTRAINT event_before_at CHECK (at < %s) NOT VALID",
    "ALTER TABLE jobs_event VALIDATE CONSTRAINT event_before_at",
)
_AHEAD = (
    "Events of after {until} were written while a clock was ahead. As the owner of the tables, UPDATE jobs_event SET at = "
    "now() WHERE at > now(), and run migrate again."
)
# One transaction does it all: others find a table of the old name, before it and after it. What is made in it is empty.
_STEP_ASIDE = """
-- squawk-ignore renaming-table
ALTER TABLE jobs_event RENAME TO jobs_event_before;
-- squawk-ignore renaming-object
ALTER INDEX event_of_tenant RENAME TO event_before_of_tenant;
-- squawk-ignore ban-drop-constraint
ALTER TABLE jobs_event_before DROP CONSTRAINT jobs_event_pkey;
ALTER TABLE jobs_event_before ADD CONSTRAINT jobs_event_before_pkey PRIMARY KEY USING INDEX event_before_key;
"""
_TABLE = """
CREATE SEQUENCE jobs_event_number AS bigint;
CREATE TABLE jobs_event (
    id bigint NOT NULL DEFAULT nextval('jobs_event_number'),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id bigint NOT NULL,
    at timestamptz NOT NULL,
    kind varchar(32) NOT NULL,
    job_id uuid NOT NULL,
    trigger_id uuid,
    data jsonb NOT NULL,
    -- store/sql/notices.sql: read; store/sql/events.sql: first. In the order of the feed.
    PRIMARY KEY (xid, id, at)
) PARTITION BY RANGE (at);
ALTER SEQUENCE jobs_event_number OWNED BY jobs_event.id;
-- store/sql/events.sql: page.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX event_of_tenant ON jobs_event (tenant_id, xid, id);
CREATE TABLE jobs_feedmark (
    xid xid8 DEFAULT pg_current_xact_id() PRIMARY KEY, at timestamptz NOT NULL, over_xid xid8 NOT NULL);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX feed_mark_at ON jobs_feedmark (at);
"""
# The lock is held: no number is given out meanwhile.
_NUMBERS = "SELECT setval('jobs_event_number', last_value, is_called) FROM {}"
# A partition has none of its own.
_DROP_IDENTITY = """
-- squawk-ignore ban-alter-identity
ALTER TABLE jobs_event_before ALTER COLUMN id DROP IDENTITY
"""
_ATTACH = "ALTER TABLE jobs_event ATTACH PARTITION jobs_event_before FOR VALUES FROM (MINVALUE) TO (%s)"
# The old one has the key for that; another index would be a write for each event.
_OLD_INDEX = """
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX event_in_order
"""
_DROP_EMPTY = """
-- squawk-ignore ban-drop-table
DROP TABLE jobs_event_before
"""
_DAYS_AHEAD = """
DO $$
DECLARE since timestamptz;
BEGIN
    FOR day IN 0..4 LOOP
        since := (date_trunc('day', now() AT TIME ZONE 'UTC') + day * interval '1 day') AT TIME ZONE 'UTC';
        EXECUTE format('CREATE TABLE %I PARTITION OF jobs_event FOR VALUES FROM (%L) TO (%L)',
                       'jobs_event_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD'), since, since + interval '1 day');
    END LOOP;
END $$;
"""
_REST = """
CREATE TABLE jobs_event_default PARTITION OF jobs_event DEFAULT;
CREATE RULE event_kept AS ON DELETE TO jobs_event
    DO INSTEAD DELETE FROM jobs_event_default WHERE false RETURNING *;
"""
# Who could use the old table can use the new one from the same moment on. Who owns the attempts makes and drops
# partitions (jobs.store.trail.roles).
_RIGHTS = """
DO $$
DECLARE
    granted record;
    part regclass;
BEGIN
    FOR granted IN
        SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role, privilege_type
        FROM pg_class, aclexplode(relacl) WHERE oid = 'jobs_event_before'::regclass
    LOOP
        EXECUTE format('GRANT %s ON jobs_event, jobs_feedmark TO %s', granted.privilege_type, granted.role);
        IF granted.privilege_type = 'INSERT' THEN
            EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE jobs_event_number TO %s', granted.role);
        END IF;
    END LOOP;
    FOR part IN
        SELECT 'jobs_event'::regclass UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'jobs_event'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', part, (
            SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'jobs_attempt'::regclass));
    END LOOP;
END $$;
"""
_BACK = """
DROP TABLE jobs_feedmark;
DROP RULE event_kept ON jobs_event;
ALTER TABLE jobs_event RENAME TO jobs_event_parts;
ALTER TABLE jobs_event_parts RENAME CONSTRAINT jobs_event_pkey TO jobs_event_parts_pkey;
ALTER INDEX event_of_tenant RENAME TO event_parts_of_tenant;
CREATE TABLE jobs_event (
    id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id bigint NOT NULL,
    at timestamptz NOT NULL,
    kind varchar(32) NOT NULL,
    job_id uuid NOT NULL,
    trigger_id uuid,
    data jsonb NOT NULL
);
INSERT INTO jobs_event SELECT id, xid, tenant_id, at, kind, job_id, trigger_id, data FROM jobs_event_parts;
SELECT setval('jobs_event_id_seq', last_value, is_called) FROM jobs_event_number;
CREATE INDEX event_of_tenant ON jobs_event (tenant_id, xid, id);
CREATE INDEX event_in_order ON jobs_event (xid, id);
DROP TABLE jobs_event_parts;
"""


def partition(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_IS_DONE)
        if cursor.fetchone() == (True,):
            return
        cursor.execute(_UNTIL, [_DAYS])
        [until] = cursor.fetchone()
        _prepare(cursor, until)
        with transaction.atomic(using=schema_editor.connection.alias):
            _swap(cursor, until)


def _prepare(cursor: Any, until: Any) -> None:
    cursor.execute(_IS_VALID)
    is_valid = cursor.fetchone()
    if is_valid != (True,):
        with _patient(cursor):
            if is_valid:
                cursor.execute("DROP INDEX CONCURRENTLY event_before_key")
            cursor.execute(_INDEX)
    try:
        for statement in _BOUND:
            cursor.execute(statement, [until] if "%s" in statement else None)
    except IntegrityError as error:
        cursor.execute(_BOUND[0])
        raise IntegrityError(_AHEAD.format(until=until)) from error


@contextmanager
def _patient(cursor: Any) -> Iterator[None]:
    """Wait for long readers, as long as it takes: what is done concurrently keeps nobody waiting."""
    cursor.execute("SELECT current_setting('lock_timeout')")
    before = cursor.fetchone()
    cursor.execute("SELECT set_config('lock_timeout', '0', false)")
    try:
        yield
    finally:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", before)


def _swap(cursor: Any, until: Any) -> None:
    cursor.execute(_STEP_ASIDE)
    cursor.execute(_TABLE)
    cursor.execute("SELECT pg_get_serial_sequence('jobs_event_before', 'id')")
    cursor.execute(_NUMBERS.format(*cursor.fetchone()))
    cursor.execute("SELECT EXISTS (SELECT FROM jobs_event_before)")
    [has_rows] = cursor.fetchone()
    if has_rows:
        cursor.execute(_DROP_IDENTITY)
        cursor.execute(_OLD_INDEX)
        cursor.execute(_ATTACH, [until])
    else:
        cursor.execute(_DAYS_AHEAD)
    cursor.execute(_REST)
    cursor.execute(_RIGHTS)
    if not has_rows:
        cursor.execute(_DROP_EMPTY)


def join(apps: Any, schema_editor: Any) -> None:
    with transaction.atomic(using=schema_editor.connection.alias), schema_editor.connection.cursor() as cursor:
        cursor.execute(_BACK)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0009_workflows")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(partition, join)],
            state_operations=[
                migrations.RemoveIndex("event", "event_in_order"),
                migrations.CreateModel(
                    name="FeedMark",
                    fields=[
                        (
                            "xid",
                            TransactionId(
                                db_default=models.Func(function="pg_current_xact_id"),
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        ("over_xid", TransactionId(editable=False)),
                    ],
                    options={"indexes": [models.Index(fields=["at"], name="feed_mark_at")]},
                ),
            ],
        ),
    ]

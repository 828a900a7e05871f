"""A ledger to explain statements over: jobs, triggers in any mix of states, and their pasts."""

import json
from typing import Any

from django.db import connection

from jobs.models import Job, Trigger
from tests import factories

COUNTS = ("jobs_activityminute", "jobs_activityhour")
PASTS = ("jobs_answer", "jobs_catchup", "jobs_skippedrange", "jobs_jobversion", "jobs_change", *COUNTS)
BIG = ("jobs_trigger", "jobs_job", "jobs_attempt", *PASTS)
JOBS, TRIGGERS, TENANTS = 5_000, 20_000, 20
#: The shares of a hundred triggers: most have ended, as in any ledger that has run for a while.
MIXED = {"pending": 8, "retrying": 2, "queued": 2, "running": 3, "succeeded": 70, "dead": 5, "skipped": 10}
#: Columns in which one bulk trigger differs from the next.
OWN_COLUMNS = {
    "id",
    "job_id",
    "tenant_id",
    "state",
    "reason",
    "scheduled_for",
    "due_at",
    "idempotency_key",
    "queued_at",
    "lease_expires_at",
    "finished_at",
}


def fill(shares: dict[str, int], *, announced: bool = True) -> None:
    """Make jobs, and triggers in the given shares of a hundred, with an attempt for each that was started."""
    tenants = [factories.make_tenant().id for _ in range(TENANTS)]
    template = factories.make_job()
    trigger = factories.make_trigger(template)
    if not announced:
        Trigger.objects.update(announced_at=None)
    columns = [
        f.column
        for f in Job._meta.concrete_fields
        if f.column not in ("id", "name", "tenant_id", "next_fire_at")
    ]
    own = {f.column for f in Trigger._meta.concrete_fields if f.generated} | OWN_COLUMNS
    of_trigger = [f.column for f in Trigger._meta.concrete_fields if f.column not in own]
    states = [state for state, share in shares.items() for _ in range(share)]
    reasons = {"dead": "exhausted", "skipped": "misfire"}
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_job (id, name, tenant_id, next_fire_at, {', '.join(map(quoted, columns))}) "
            f"SELECT gen_random_uuid(), 'bulk-' || n, (%s::bigint[])[1 + n %% {TENANTS}], "
            f"now() + n * interval '1 minute', {', '.join(map(quoted, columns))} "
            f"FROM jobs_job, generate_series(1, {JOBS}) AS n WHERE jobs_job.id = %s",
            [tenants, template.id],
        )
        cursor.execute(
            f"WITH job AS (SELECT id, tenant_id, row_number() OVER () AS rank FROM jobs_job), "
            f"bulk AS (SELECT n, (%s::text[])[1 + n %% 100] AS state, now() - n * interval '1 second' AS moment "
            f"         FROM generate_series(1, {TRIGGERS}) AS n) "
            f"INSERT INTO jobs_trigger (id, job_id, tenant_id, state, reason, scheduled_for, due_at, idempotency_key, "
            f"    queued_at, lease_expires_at, finished_at, {', '.join(map(quoted, of_trigger))}) "
            f"SELECT gen_random_uuid(), job.id, job.tenant_id, bulk.state, coalesce(%s::jsonb ->> bulk.state, ''), "
            f"    moment, moment, 'bulk-' || n, moment, "
            f"    CASE bulk.state WHEN 'running' THEN now() + interval '1 minute' END, "
            f"    CASE WHEN bulk.state IN ('succeeded', 'dead', 'skipped') THEN moment END, "
            f"    {', '.join('t.' + quoted(column) for column in of_trigger)} "
            f"FROM jobs_trigger t, bulk JOIN job ON job.rank = 1 + bulk.n %% {JOBS} WHERE t.id = %s",
            [states, json.dumps(reasons), trigger.id],
        )
        cursor.execute(
            "INSERT INTO jobs_attempt (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at) "
            "SELECT gen_random_uuid(), id, job_id, tenant_id, 1, 1, 'w1', 'started', now() FROM jobs_trigger "
            "WHERE state NOT IN ('pending', 'queued')"
        )
        fill_pasts(cursor)


def fill_pasts(cursor: Any) -> None:
    """A timeline, a range and a catch-up for each job. Four of five catch-ups are finished, half the others decided."""
    cursor.execute(
        "INSERT INTO jobs_jobversion (id, job_id, tenant_id, version, status, schedule, valid_from) "
        "SELECT gen_random_uuid(), id, tenant_id, n, 'active', '{}', created_at + n * interval '1 second' "
        "FROM jobs_job, generate_series(1, 3) AS n"
    )
    cursor.execute(
        "INSERT INTO jobs_answer (tenant_id, key, fingerprint, status, headers, body, created_at) "
        "SELECT tenant_id, id, '', 201, '{}', '', now() FROM jobs_job"
    )
    for table, column in (("jobs_activityminute", "minute"), ("jobs_activityhour", "hour")):
        cursor.execute(
            f"INSERT INTO {table} ({column}, tenant_id, job_type, started) "
            f"SELECT date_trunc('{column}', now()) - n * interval '1 {column}', t.id, 'noop', 1 "
            "FROM tenants_tenant t, generate_series(0, 1000) n ON CONFLICT DO NOTHING"
        )
    cursor.execute(
        "INSERT INTO jobs_skippedrange "
        "    (id, job_id, tenant_id, job_version, from_at, until_at, count, reason, created_at) "
        "SELECT gen_random_uuid(), id, tenant_id, 1, created_at, created_at, 1, 'misfire', created_at FROM jobs_job"
    )
    cursor.execute(
        "INSERT INTO jobs_catchup (id, job_id, tenant_id, job_version, origin, policy, from_at, until_at, cursor, "
        "    tail, fired, skipped, created_at, finished_at) "
        "SELECT gen_random_uuid(), id, tenant_id, 2, 'outage', 'fire_once', created_at, now(), "
        "    CASE n % 2 WHEN 0 THEN now() ELSE created_at END, '{}', 0, 0, now(), "
        "    CASE n % 5 WHEN 0 THEN NULL ELSE now() END "
        "FROM (SELECT *, row_number() OVER () AS n FROM jobs_job) job"
    )


def note_events(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_event (tenant_id, at, kind, job_id, data) "
            "SELECT 1, now(), 'trigger.dead', gen_random_uuid(), '{}' FROM generate_series(1, %s)",
            [count],
        )


def quoted(column: str) -> str:
    return f'"{column}"'

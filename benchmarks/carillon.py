"""Carillon as a contestant: its beat and worker by their ordinary commands, its jobs in bulk, its ledger read back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from benchmarks.stage import WORKER_PROCESSES, Actor, Stage

CELERY = ("-m", "celery", "-A", "scheduler_project")
BEAT = (*CELERY, "beat", "-S", "jobs.engine.beat:LeaderScheduler", "--pidfile=")
WORKER = (*CELERY, "worker", "-c", str(WORKER_PROCESSES), "--without-gossip", "--without-mingle")
WARM_UP = 400
_UNFINISHED = (
    "SELECT EXISTS (SELECT 1 FROM jobs_trigger WHERE state IN ('pending', 'queued', 'running', 'retrying'))"
)
_IDLE = "SELECT NOT EXISTS (SELECT 1 FROM jobs_job WHERE status = 'active' AND next_fire_at IS NOT NULL)"


@contextmanager
def running(stage: Stage) -> Iterator[tuple[Actor, Actor]]:
    """A beat and a worker, warmed up on a tenant ``bench`` without caps. Yields both."""
    stage.empty()
    stage.db.execute(
        "INSERT INTO tenants_tenant (slug, name, status, weight, max_in_flight, max_jobs, max_payload_bytes, "
        "webhook_secret, created_at, updated_at) "
        "VALUES ('bench', 'bench', 'active', 100, 1000000, 100000000, 65536, '', now(), now())"
    )
    with stage.actor("worker", WORKER) as worker, stage.actor("beat", BEAT) as beat:
        add_one_time_jobs(stage, WARM_UP, due_in=timedelta())
        drain(stage, WARM_UP, what="warming up beat and worker")
        yield beat, worker


def add_one_time_jobs(
    stage: Stage, count: int, *, due_in: timedelta, spread: timedelta = timedelta()
) -> datetime:
    """Create no-op jobs that fall due from ``due_in`` after now on, evenly over ``spread``.

    Returns the database's clock just before they became visible, or the first due instant when that is later.
    """
    first = stage.value("SELECT clock_timestamp() + %(due_in)s", due_in=due_in)
    with stage.db.transaction():
        _add_jobs(stage, count, "once", first=first, step=spread / count, every=None)
        visible = stage.value("SELECT clock_timestamp()")
    return max(first, visible)


def add_interval_jobs(stage: Stage, intervals: list[timedelta]) -> datetime:
    """Create one no-op job for each interval; the first firing is one interval from now. Returns now."""
    now = stage.value("SELECT clock_timestamp()")
    for every in intervals:
        _add_jobs(stage, 1, "interval", first=now + every, step=timedelta(), every=every)
    return now


def _add_jobs(
    stage: Stage, count: int, kind: str, *, first: datetime, step: timedelta, every: timedelta | None
) -> None:
    """Rows as the API would write them; UUIDv7 ids, in order."""
    stage.db.execute(
        """
        INSERT INTO jobs_job (
            id, tenant_id, name, job_type, payload, schedule_type, cron_expression, timezone, "interval", run_at,
            dst_policy, jitter, priority, timeout, delivery, retry_policy, overlap_policy, max_concurrent,
            concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup, status, status_reason,
            version, partition_key, next_fire_at, created_at, updated_at)
        SELECT (lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                   || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid,
               (SELECT id FROM tenants_tenant WHERE slug = 'bench'), gen_random_uuid()::text, 'noop', '{}',
               %(kind)s::text, '', 'UTC', %(every)s::interval,
               CASE WHEN %(kind)s::text = 'once' THEN %(first)s::timestamptz + i * %(step)s::interval END,
               'vixie', '0', 2, '60 s', 'at_least_once', '{}', 'skip', 1, '', 'fire_all', '1 h', '1 h', 100, 'active',
               '', 1, i %% 256, %(first)s::timestamptz + i * %(step)s::interval,
               %(first)s::timestamptz - coalesce(%(every)s::interval, '0'), now()
        FROM generate_series(0, %(count)s - 1) AS i
        """,
        {"count": count, "kind": kind, "first": first, "step": step, "every": every},
    )


def materialized(stage: Stage) -> bool:
    """Whether every job's instants have their triggers."""
    return bool(stage.value(_IDLE))


def drain(stage: Stage, count: int, *, what: str, timeout_seconds: float = 300) -> None:
    """Wait until everything materialized and finished; raises ``BenchError`` unless ``count`` have succeeded in all."""
    stage.must(
        what,
        lambda: materialized(stage) and not stage.value(_UNFINISHED) and succeeded(stage) >= count,
        timeout_seconds=timeout_seconds,
    )


def succeeded(stage: Stage) -> int:
    """How many triggers have succeeded so far."""
    return int(stage.value("SELECT count(*) FROM jobs_trigger WHERE state = 'succeeded'"))


def last_finished_at(stage: Stage) -> datetime:
    """When Postgres recorded the last success."""
    finished: datetime = stage.value("SELECT max(finished_at) FROM jobs_trigger WHERE state = 'succeeded'")
    return finished

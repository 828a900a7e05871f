"""Read Carillon's ledger: when all work was done, how late each firing started. All times are by Postgres' clock."""

from datetime import datetime, timedelta

from benchmarks.carillon.registry import Batch
from benchmarks.stage import BenchError, Stage

#: The database records the times itself, so rare polling costs no precision and takes nothing from the measured work.
POLL_SECONDS = 0.2
#: The query reads in an index's order, because with old statistics the planner would scan the whole table, five times a
#: second.
_UNFINISHED = """
    SELECT job_id FROM jobs_trigger WHERE phase IN ('pending', 'retrying', 'in_flight')
    ORDER BY job_id LIMIT 1
"""
#: Jobs that a bench keeps for a distant future have no firing that counts today.
_MATERIALIZED = """
    SELECT NOT EXISTS (SELECT 1 FROM jobs_job WHERE status = 'active' AND next_fire_at IS NOT NULL
                       AND next_fire_at < clock_timestamp() + interval '1 hour')
"""
_OUTCOMES = """
    SELECT state, count(*), max(finished_at) FROM jobs_trigger
    WHERE tenant_id = %(tenant_id)s AND scheduled_for >= %(first_due_at)s GROUP BY state
"""
#: A firing that has not started by the end of the watch is at least as late as it was then.
_LAGS = """
    SELECT extract(epoch FROM coalesce(t.started_at, %(until)s) - t.due_at)::float * 1000
    FROM jobs_trigger t JOIN tenants_tenant owner ON owner.id = t.tenant_id
    WHERE t.due_at >= %(since)s AND t.due_at < %(until)s AND owner.slug = ANY(%(tenants)s)
      AND t.state NOT IN ('skipped', 'cancelled')
"""
_STARTED = """
    SELECT count(*) FROM jobs_trigger t JOIN tenants_tenant owner ON owner.id = t.tenant_id
    WHERE owner.slug = %(tenant)s AND t.started_at >= %(since)s AND t.started_at < %(until)s
"""
#: Counting rows would slow down the measured work; the server's own statistics are at most a second or two behind.
_ATTEMPTS = (
    "SELECT coalesce(sum(n_tup_ins), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'jobs_attempt%%'"
)


def materialized(stage: Stage) -> bool:
    """Whether every job's instants have their triggers."""
    return bool(stage.value(_MATERIALIZED))


def idle(stage: Stage) -> bool:
    """Whether no trigger is unfinished."""
    return stage.value(_UNFINISHED) is None


def drain(stage: Stage, batch: Batch, *, what: str, timeout_seconds: float = 300) -> float:
    """Wait until nothing is left to do. Returns the seconds from the batch's beginning to its last recorded success.

    Raises ``BenchError`` unless all of the batch succeeded.
    """
    before = attempts(stage)
    stage.must(
        what,
        lambda: materialized(stage) and idle(stage),
        timeout_seconds=timeout_seconds,
        poll_seconds=POLL_SECONDS,
        progress=lambda: f"about {min(attempts(stage) - before, batch.count):,} of {batch.count:,} started",
    )
    names = {"tenant_id": batch.tenant_id, "first_due_at": batch.first_due_at}
    outcomes = {state: (count, last) for state, count, last in stage.db.execute(_OUTCOMES, names)}
    succeeded, last = outcomes.get("succeeded", (0, None))
    if succeeded != batch.count or last is None:
        counts = {state: count for state, (count, _) in outcomes.items()}
        raise BenchError(f"{what}: {batch.count:,} should have succeeded, but {counts} did")
    seconds: timedelta = last - batch.begins_at
    return seconds.total_seconds()


def attempts(stage: Stage) -> int:
    """About how many attempts were ever begun on this server, for a rough idea of progress."""
    return int(stage.value(_ATTEMPTS))


def started(stage: Stage, tenant: str, *, since: datetime, until: datetime) -> int:
    """How many of the tenant's triggers started within the span. Reads the whole table."""
    return int(stage.value(_STARTED, tenant=tenant, since=since, until=until))


def lags(stage: Stage, *tenants: str, since: datetime, until: datetime) -> list[float]:
    """How late, in ms, each firing of the tenants due within the span started.

    Raises ``BenchError`` when there was none.
    """
    found = stage.db.execute(_LAGS, {"tenants": list(tenants), "since": since, "until": until})
    values = [float(lag) for (lag,) in found]
    if not values:
        raise BenchError(f"no firing of {', '.join(tenants)} fell due while it was watched")
    return values

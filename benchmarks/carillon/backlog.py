"""Backlogs: tenants by the thousand, each with jobs and pending triggers, as the engine would have written them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from benchmarks.carillon.processes import NO_CAP
from benchmarks.carillon.registry import LATE_ONES_RUN, OVERLAPPING, TIMEOUT
from benchmarks.carillon.rows import grow
from benchmarks.stage import Stage

#: The jobs' next firing, and the interval between firings: both lie after the end of any bench.
NEXT, EVERY = timedelta(days=2), timedelta(days=365)
#: A job fires once at an instant.
APART = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)


def add_backlog(
    stage: Stage,
    name: str,
    tenants: int,
    *,
    jobs_each: int,
    triggers_each: int,
    due_in: timedelta = timedelta(),
    spread: timedelta = timedelta(),
    apart: timedelta = APART,
    news: bool = True,
    quotas: Mapping[str, Any] | None = None,
    **columns: Any,
) -> datetime:
    """Create tenants ``<name>-<n>``, each with ``jobs_each`` jobs, each job with ``triggers_each`` pending triggers.

    Jobs are made for the tenants in turn: the ``n``-th belongs to tenant ``n % tenants``. The jobs' last triggers fall
    due from ``due_in`` after now on, evenly over ``spread``; the earlier triggers of a job are ``apart`` from each
    other. ``quotas`` are columns of the tenants, ``columns`` those of the jobs; both may be ``psycopg.sql`` that uses
    the row's number ``n``. Without ``news`` the triggers are not announced to dispatchers, like those that leaders
    materialize; a beat that begins to lead finds them. Returns the instant at which the first job's last trigger is
    due.
    """
    due_at: datetime = stage.value("SELECT clock_timestamp()") + due_in
    _add_tenants(stage, name, tenants, quotas or {})
    _add_jobs(stage, name, tenants, jobs_each, columns)
    at = sql.SQL(
        "{due_at}::timestamptz + {spread}::interval * (n / {each}) / {jobs} - n % {each} * {apart}::interval"
    ).format(due_at=due_at, spread=spread, each=triggers_each, jobs=tenants * jobs_each, apart=apart)
    source = f"JOIN bench_job b ON b.number = n / {triggers_each}"
    silence = {} if news else {"announced_at": None}
    _add_triggers(stage, name, tenants * jobs_each * triggers_each, source, at, **silence)
    return due_at


def add_bursts(
    stage: Stage, name: str, at_once: int, *, bursts: int, every: timedelta, due_in: timedelta
) -> None:
    """Add ``at_once`` triggers at a time, to the jobs of the most recently made backlog in turn."""
    due_at: datetime = stage.value("SELECT clock_timestamp()") + due_in
    at = sql.SQL("{}::timestamptz + n / {} * {}::interval + n % {} * {}::interval").format(
        due_at, at_once, every, at_once, MICROSECOND
    )
    source = "JOIN bench_job b ON b.number = n % (SELECT count(*) FROM bench_job)"
    _add_triggers(stage, name, at_once * bursts, source, at)


def _add_tenants(stage: Stage, name: str, count: int, quotas: Mapping[str, Any]) -> None:
    from tenants.models import Tenant

    slug = sql.SQL("{} || n").format(f"{name}-")
    common = {"slug": slug, "name": slug, "max_in_flight": NO_CAP} | {
        at: sql.SQL("clock_timestamp()") for at in ("created_at", "updated_at")
    }
    grow(stage, Tenant, count, what=f"making tenants {name}", **common | dict(quotas))
    _number(stage, "bench_tenant", "tenants_tenant", sql.SQL("slug LIKE {}").format(f"{name}-%"))


def _add_jobs(stage: Stage, name: str, tenants: int, each: int, columns: Mapping[str, Any]) -> None:
    from jobs.models import Job

    common = {
        "id": sql.SQL("uuidv7()"),
        "tenant": sql.SQL("owner.id"),
        "name": sql.SQL("{} || n").format(f"{name}-"),
        "job_type": "noop",
        "timeout": TIMEOUT,
        "schedule_type": "interval",
        "interval": EVERY,
        "next_fire_at": sql.SQL("clock_timestamp() + {}::interval").format(NEXT),
        "misfire_policy": LATE_ONES_RUN,
        "created_at": sql.SQL("clock_timestamp()"),
        "updated_at": sql.SQL("clock_timestamp()"),
    }
    source = f"JOIN bench_tenant owner ON owner.number = n % {tenants}"
    what = f"registering jobs of {name}"
    grow(stage, Job, tenants * each, what=what, source=source, **common | OVERLAPPING | dict(columns))
    _number(stage, "bench_job", "jobs_job", sql.SQL("name LIKE {}").format(f"{name}-%"))


def _add_triggers(
    stage: Stage, name: str, count: int, source: str, at: sql.Composable, **columns: Any
) -> None:
    from jobs.models import Trigger

    grow(
        stage,
        Trigger,
        count,
        what=f"making triggers of {name}",
        source=f"{source} JOIN jobs_job j ON j.id = b.id",
        id=sql.SQL("uuidv7()"),
        job=sql.SQL("j.id"),
        tenant=sql.SQL("j.tenant_id"),
        job_type=sql.SQL("j.job_type"),
        job_version=1,
        scheduled_for=at,
        due_at=at,
        priority=sql.SQL("j.priority"),
        idempotency_key=sql.SQL("'job:' || j.id || ':' || n"),
        created_at=sql.SQL("clock_timestamp()"),
        **columns,
    )


def _number(stage: Stage, name: str, table: str, condition: sql.Composable) -> None:
    """Number the table's rows that meet the condition, from 0 on, in the order of their ids."""
    names = {"name": sql.Identifier(name), "table": sql.Identifier(table), "condition": condition}
    stage.db.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(names["name"]))
    stage.db.execute(
        sql.SQL(
            "CREATE UNLOGGED TABLE {name} AS SELECT row_number() OVER (ORDER BY id) - 1 AS number, id "
            "FROM {table} WHERE {condition}"
        ).format(**names)
    )
    stage.db.execute(sql.SQL("ALTER TABLE {name} ADD PRIMARY KEY (number)").format(**names))
    stage.db.execute(sql.SQL("ANALYZE {name}").format(**names))

"""Jobs and triggers in bulk, as rows the API and the materializer would write."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction
from psycopg import sql

from benchmarks.carillon.rows import grow
from benchmarks.stage import Stage

TENANT = "bench"
TIMEOUT = timedelta(seconds=60)
#: By default late firings run, too: the bench measures how fast all are done.
LATE_ONES_RUN = "fire_all"
#: No firing makes way for another of its job: all are counted, however late they are.
OVERLAPPING = {"overlap_policy": "allow", "max_concurrent": 1_000_000}


@dataclass(frozen=True)
class Batch:
    """Firings of the same kind. ``begins_at`` is when the first of them is both visible and due."""

    tenant_id: int
    count: int
    first_due_at: datetime
    begins_at: datetime


def add_one_time_jobs(
    stage: Stage,
    count: int,
    *,
    due_in: timedelta,
    spread: timedelta = timedelta(),
    tenant: str = TENANT,
    **columns: Any,
) -> Batch:
    """Create jobs (no-ops by default) that fall due from ``due_in`` after now on, evenly over ``spread``.

    ``columns`` are the jobs' columns, such as ``job_type`` and ``payload``.
    """
    first: datetime = stage.value("SELECT clock_timestamp()") + due_in
    at = sql.SQL("{}::timestamptz + {}::interval * n / {}").format(first, spread, count)
    visible_at = _grow_jobs(
        stage,
        count,
        tenant=tenant,
        **{"schedule_type": "once", "run_at": at, "next_fire_at": at, "created_at": first} | columns,
    )
    return Batch(_tenant_id(tenant), count, first, max(first, visible_at))


def add_fleet(
    stage: Stage,
    count: int,
    *,
    every: timedelta,
    first_in: timedelta,
    spread: timedelta | None = None,
    tenant: str = TENANT,
    **columns: Any,
) -> datetime:
    """Create interval jobs. Returns the instant of the first firing, ``first_in`` from now.

    ``count`` firings in each ``every`` are spread evenly over ``spread``, by default over all of ``every``.
    """
    first: datetime = stage.value("SELECT clock_timestamp()") + first_in
    at = sql.SQL("{}::timestamptz + {}::interval * n / {}").format(
        first, every if spread is None else spread, count
    )
    made_at = sql.SQL("{} - {}::interval").format(at, every)
    _grow_jobs(
        stage,
        count,
        tenant=tenant,
        **{"schedule_type": "interval", "interval": every, "next_fire_at": at, "created_at": made_at}
        | OVERLAPPING
        | columns,
    )
    return first


def add_due_triggers(stage: Stage, count: int, *, tenant: str, **columns: Any) -> Batch:
    """Create one-time jobs together with their triggers, pending and due at once, as if materialized already."""
    from jobs.models import Job, Trigger

    due_at: datetime = stage.value("SELECT clock_timestamp()")
    tenant_id = _tenant_id(tenant)
    made = {"schedule_type": "once", "run_at": due_at, "next_fire_at": None, "created_at": due_at}
    # Numbered across calls, so that jobs of several kinds in one tenant can be told apart by name.
    name = sql.SQL("{} || n").format(f"due-{uuid4().hex}-")
    _grow_jobs(stage, count, tenant=tenant, **made | columns, name=name)
    visible_at = grow(
        stage,
        Trigger,
        count,
        what=f"making triggers of {tenant} due",
        source=f"JOIN {Job._meta.db_table} j ON j.tenant_id = {tenant_id} AND j.deleted_at IS NULL "
        + sql.SQL("AND j.name = {}").format(name).as_string(stage.db),
        id=sql.SQL("uuidv7()"),
        job=sql.SQL("j.id"),
        tenant=tenant_id,
        job_type=sql.SQL("j.job_type"),
        job_version=1,
        scheduled_for=due_at,
        due_at=due_at,
        priority=sql.SQL("j.priority"),
        idempotency_key=sql.SQL("'job:' || j.id"),
        created_at=due_at,
    )
    return Batch(tenant_id, count, due_at, visible_at)


def _grow_jobs(stage: Stage, count: int, *, tenant: str, **columns: Any) -> datetime:
    from jobs.models import Job

    common = {
        "id": sql.SQL("uuidv7()"),
        "tenant": _tenant_id(tenant),
        "name": sql.SQL("{} || n").format(f"{uuid4().hex}-"),
        "job_type": "noop",
        "timeout": TIMEOUT,
        "misfire_policy": LATE_ONES_RUN,
        "updated_at": columns["created_at"],
    }
    visible_at: datetime = grow(stage, Job, count, what=f"registering jobs of {tenant}", **common | columns)
    return visible_at


def _tenant_id(slug: str) -> int:
    from tenants.models import Tenant

    return int(Tenant.objects.only("id").get(slug=slug).id)


def add_interval_jobs(stage: Stage, intervals: list[timedelta]) -> datetime:
    """Create one no-op job for each interval; the first firing is one interval from now. Returns now."""
    now: datetime = stage.value("SELECT clock_timestamp()")
    jobs = [
        {"schedule_type": "interval", "interval": every, "next_fire_at": now + every, "created_at": now}
        for every in intervals
    ]
    add_jobs(stage, jobs)
    return now


def add_jobs(stage: Stage, jobs: list[dict[str, Any]], *, tenant: str = TENANT) -> datetime:
    """Insert jobs that differ in more than their instant, and their timelines, valid since they were created.

    Returns the database's clock just before they are visible.
    """
    from jobs.models import Job
    from jobs.store.jobs import note_versions

    common = {
        "tenant_id": _tenant_id(tenant),
        "job_type": "noop",
        "timeout": TIMEOUT,
        "misfire_policy": LATE_ONES_RUN,
    }
    with transaction.atomic():
        created = Job.objects.bulk_create(
            [
                Job(**(common | job), name=uuid4().hex, updated_at=job["created_at"])
                for i, job in enumerate(jobs)
            ],
            batch_size=2000,
        )
        note_versions([job.id for job in created])
        visible: datetime = stage.value("SELECT clock_timestamp()")
    return visible

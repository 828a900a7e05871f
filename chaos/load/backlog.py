"""Firings by the ten thousand, as the API and the materializer would leave them.

``python -m chaos.load.backlog KIND …``: a process of its own with Carillon's settings, because through the API this
would take hours. Its jobs do nothing (``chaos.nothing``) and are in no history: they exist for their effect on others.
Prints their ids, as JSON, by tenant.
"""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.models import Job

CHUNK = 5_000
DAY, MINUTE, SECOND = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
#: The firings that must run are inserted here; the schedule of their job never falls due.
_NEVER = {"schedule_type": "once", "run_at": datetime(2099, 1, 1, tzinfo=UTC)}


def crowd(*, tenants: int, depth: int) -> list["Job"]:
    """``tenants`` new tenants with one job each, and ``depth`` of its firings due now."""
    from tenants.models import Tenant

    slugs = [f"crowd-{n}" for n in range(tenants)]
    Tenant.objects.bulk_create([Tenant(slug=slug, name=slug) for slug in slugs], ignore_conflicts=True)
    jobs = [
        _job(tenant.id, name=f"crowd-{tenant.id}", **_NEVER)
        for tenant in Tenant.objects.filter(slug__in=slugs)
    ]
    _keep(jobs)
    _due_now(jobs, depth)
    return jobs


def flood(*, tenant: str, depth: int) -> list["Job"]:
    """``depth`` firings of one job due now, which may all run at once."""
    jobs = [_job(_tenant(tenant), name="flood", **_NEVER)]
    _keep(jobs)
    _due_now(jobs, depth)
    return jobs


def one_by_one(*, tenant: str, depth: int) -> list["Job"]:
    """``depth`` firings due now of one job that runs one at a time: all but one of them are parked."""
    jobs = [_job(_tenant(tenant), name="one-by-one", overlap_policy="queue", max_concurrent=1, **_NEVER)]
    _keep(jobs)
    _due_now(jobs, depth)
    return jobs


def missed(*, tenant: str, depth: int) -> list["Job"]:
    """A job that fires every second, whose last ``depth`` firings were missed; only the latest of them must run."""
    from jobs.store.jobs import Firing, materialize
    from tenants.clock import database_now

    now = database_now()
    job = _job(
        _tenant(tenant), name="missed", schedule_type="interval", interval=SECOND, misfire_policy="fire_once",
        catchup_window=DAY, created_at=now - depth * SECOND, next_fire_at=now + SECOND,
    )  # fmt: skip
    _keep([job])
    instants = [job.created_at + n * SECOND for n in range(1, depth + 1)]
    for some in _chunks([_firing(job, at) for at in instants]):
        materialize([Firing(**firing) for firing in some])
    return [job]


def _tenant(slug: str) -> int:
    from tenants.models import Tenant

    return int(Tenant.objects.get(slug=slug).id)


def _job(tenant_id: int, **columns: Any) -> "Job":
    from jobs.models import Job
    from tenants.clock import database_now

    now = database_now()
    plain = {
        "job_type": "chaos.nothing", "timeout": MINUTE, "created_at": now, "updated_at": now,
        "overlap_policy": "allow", "max_concurrent": 1_000_000, "misfire_policy": "fire_all", "next_fire_at": None,
    }  # fmt: skip
    columns.setdefault("created_at", now)
    return Job(tenant_id=tenant_id, **plain | columns | {"updated_at": columns["created_at"]})


def _keep(jobs: list["Job"]) -> None:
    """Insert the jobs with their timelines. Each gets a next firing, or it would be taken for completed."""
    from django.db import transaction

    from jobs.models import Job
    from jobs.store.jobs import note_versions

    for job in jobs:
        job.next_fire_at = job.next_fire_at or job.run_at
    with transaction.atomic():
        Job.objects.bulk_create(jobs, batch_size=CHUNK)
        note_versions([job.id for job in jobs])


def _due_now(jobs: list["Job"], depth: int) -> None:
    from jobs.store.jobs import Firing, materialize
    from tenants.clock import database_now

    now = database_now()
    firings = (
        _firing(job, now - n * timedelta(milliseconds=1), origin="run_now")
        for n in range(depth)
        for job in jobs
    )
    for some in _chunks(firings):
        materialize([Firing(**firing) for firing in some])


def _firing(job: "Job", at: datetime, **columns: Any) -> dict[str, Any]:
    return {
        "job_id": job.id, "tenant_id": job.tenant_id, "job_type": job.job_type, "job_version": job.version,
        "priority": job.priority, "scheduled_for": at, "due_at": at,
    } | columns  # fmt: skip


def _chunks(items: Any) -> Iterator[list[Any]]:
    chunk = []
    for item in items:
        chunk.append(item)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def main() -> None:
    import django

    parser = argparse.ArgumentParser(prog="python -m chaos.load.backlog")
    parser.add_argument("kind", choices=("crowd", "flood", "one_by_one", "missed"))
    parser.add_argument("--tenant", default="")
    parser.add_argument("--tenants", type=int, default=0)
    parser.add_argument("--depth", type=int, required=True)
    options = parser.parse_args()
    django.setup()
    makes = {"flood": flood, "one_by_one": one_by_one, "missed": missed}
    if options.kind == "crowd":
        jobs = crowd(tenants=options.tenants, depth=options.depth)
    else:
        jobs = makes[options.kind](tenant=options.tenant, depth=options.depth)
    print(json.dumps({str(job.tenant_id): str(job.id) for job in jobs}))


if __name__ == "__main__":
    main()

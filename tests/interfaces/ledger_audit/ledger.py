"""Jobs with their firings on record, as an undisturbed beat leaves them, and the audit's findings in them."""

from datetime import datetime, timedelta
from typing import Any

from jobs.actions import jobs as actions
from jobs.actions.ledger_audit import audit
from jobs.actions.overdue import materialize
from jobs.core.schedule import fire_times, next_fire
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import Job, JobVersion, SkippedRange
from jobs.store import jobs as jobs_store
from jobs.store.jobs import schedule_of
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, make_tenant, now, utc

DAY = timedelta(days=1)
EVERY_MINUTE = {"type": "interval", "every_seconds": 60}
DAILY = {"type": "cron", "cron": "30 2 * * *", "timezone": "America/New_York"}


def create(schedule: dict[str, Any] | None = None, tenant: Tenant | None = None, **changes: Any) -> Job:
    document = {"name": "nightly", "job_type": "noop", "schedule": schedule or EVERY_MINUTE} | changes
    return actions.create_job(tenant=tenant or make_tenant(), definition=document)


def beat() -> None:
    """Record the firings up to an hour ahead, as a beat without any outage does."""
    ahead = now() + HOUR
    for job in Job.objects.filter(status="active", next_fire_at__lte=ahead):
        schedule, since = schedule_of(job), job.next_fire_at - timedelta(microseconds=1)
        due = fire_times(schedule, after=since, until=ahead, limit=100_000)
        materialize(job=job, instants=due)
        jobs_store.advance({job.id: next_fire(schedule, after=ahead)})


def decide() -> None:
    """Let the leader decide the present catch-ups."""
    CatchUps(pace=Pace()).step(leadership=factories.ANYONE, budget=MINUTE)


def kinds(job: Job | None = None) -> list[tuple[str, datetime]]:
    """(kind, instant) of every difference up to now."""
    jobs = Job.objects.filter(id=job.id) if job else Job.objects.all()
    found = audit(jobs=jobs, since=utc(2000, 1, 1), until=now(), keep=10_000)
    return [(kind, at) for result in found for kind, at, _ in result.differences]


def instants(job: Job) -> int:
    [result] = audit(jobs=Job.objects.filter(id=job.id), since=utc(2000, 1, 1), until=now())
    return result.instants


def change(verb: Any, job: Job, **arguments: Any) -> Job:
    changed: Job = verb(tenant=job.tenant, job_id=job.id, **arguments)
    return changed


def timeline(job: Job) -> list[tuple[int, str, datetime]]:
    entries = JobVersion.objects.filter(job=job).order_by("valid_from")
    return [(entry.version, entry.status, entry.valid_from) for entry in entries]


def skip(job: Job, first: int, last: int, **columns: Any) -> SkippedRange:
    """A range from the job's firing number ``first`` to ``last``, one a minute."""
    plain = {
        "job": job,
        "tenant_id": job.tenant_id,
        "job_version": 1,
        "from_at": job.created_at + first * MINUTE,
        "until_at": job.created_at + last * MINUTE,
        "count": last - first + 1,
        "reason": "misfire",
        "created_at": now(),
    }
    return SkippedRange.objects.create(**(plain | columns))

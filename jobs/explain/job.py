"""Why a job's firings wait: the job's state, and every gate of the firing that has waited longest."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.actions.jobs import find_job
from jobs.core.states import JobStatus
from jobs.explain.gate import counted, moment
from jobs.explain.gates import Available, status_told
from jobs.explain.trigger import Explanation, explain_trigger
from jobs.models import CatchUp, Job
from jobs.shapes.explain import JobExplanationShape
from jobs.store.insight import explain as explain_store
from tenants.clock import database_now
from tenants.models import Tenant

#: At most this many of the unfinished catch-ups and backfills are shown, the newest.
MAX_CATCH_UPS = 10


@dataclass(frozen=True, slots=True)
class JobExplanation:
    """``unfinished`` counts its triggers by state, to ``MAX_UNFINISHED`` in all; ``oldest`` has waited longest."""

    job: Job
    at: datetime
    unfinished: dict[str, int]
    oldest: Explanation | None
    catch_ups: list[CatchUp]

    @property
    def summary(self) -> str:
        """The answer in a sentence or two."""
        job = self.job
        if job.status not in (JobStatus.ACTIVE, JobStatus.COMPLETED):
            return f"The job is {status_told(job.status, job)}. Nothing of it starts."
        if self.oldest is not None:
            return f"The firing of {moment(self.oldest.fact.scheduled_for)}: {self.oldest.summary}"
        running = self.unfinished["running"]
        runs = (
            f", and {counted(running, 'trigger')} of it {'runs' if running == 1 else 'run'}"
            if running
            else ""
        )
        return f"The job is {job.status}; nothing of it waits{runs}."

    def representation(self, *, next_fire_at: str | None) -> dict[str, Any]:
        """The explanation as the API shows it, JSON types only."""
        return JobExplanationShape.of(
            self.job,
            at=self.at,
            summary=self.summary,
            next_fire_at=next_fire_at,
            unfinished=self.unfinished,
            oldest_waiting=self.oldest and self.oldest.representation(),
            catch_up=self.catch_ups,
        )


def explain_job(*, tenant: Tenant, job_id: UUID | str, available: Available | None = None) -> JobExplanation:
    """Explain a living job. A constant number of statements. Raises ``NotFound``."""
    job = find_job(tenant=tenant, job_id=job_id)
    facts = explain_store.job_facts(job_id=job.id, tenant_id=tenant.id)
    oldest = None
    if facts.oldest_waiting is not None:
        oldest = explain_trigger(tenant=tenant, trigger_id=facts.oldest_waiting, available=available)
    return JobExplanation(
        job=job,
        at=database_now(),
        unfinished={state: getattr(facts, state) for state in ("pending", "queued", "running", "retrying")},
        oldest=oldest,
        catch_ups=list(CatchUp.objects.filter(job=job, finished_at=None).order_by("-id")[:MAX_CATCH_UPS]),
    )

"""The demo's schedules, and the firings that they promise: pure, so that the verdict does not depend on the engine.

Expected firings follow from the instant that the API acknowledged (``created_at``) and from the requested schedule.
Intervals and single instants are counted here by plain arithmetic; only cron uses ``jobs.core.schedule``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from jobs.core.instants import instant_text
from jobs.core.schedule import Schedule, ScheduleType, fire_times

TENANTS = {"acme": "Acme Corporation", "globex": "Globex", "initech": "Initech"}
ONCE_AFTER = timedelta(seconds=8)
MAX_FIRINGS = 1_000_000

#: The retries of one firing must be over well within the verdict's grace.
QUICK_RETRIES = {
    "max_attempts": 4,
    "backoff": "fixed",
    "initial_delay_seconds": 0.5,
    "jitter": "none",
}


class Reception(StrEnum):
    """How the receiver treats the firings of a job."""

    ACCEPTED = "accepted"
    #: 503 to the first two requests of each firing.
    RETRIED = "retried"
    #: 400: a dead letter.
    REFUSED = "refused"

    def status(self, *, request_number: int) -> int:
        """The HTTP status of the answer to the ``request_number``-th request (from 1) of one firing."""
        if self is Reception.RETRIED and request_number < self.requests:
            return 503
        return 400 if self is Reception.REFUSED else 200

    @property
    def requests(self) -> int:
        """How many requests one firing takes until its final answer."""
        return 3 if self is Reception.RETRIED else 1


@dataclass(frozen=True, kw_only=True)
class SampleJob:
    """A job to create. ``schedule`` is the API's JSON; ``says`` is the same for people."""

    tenant: str
    name: str
    schedule: Mapping[str, Any]
    says: str
    priority: str = "medium"
    reception: Reception = Reception.ACCEPTED

    @property
    def path(self) -> str:
        """The path on the receiver that its webhooks go to."""
        return f"/{self.tenant}/{self.name}"

    def document(self, *, receiver_url: str) -> dict[str, Any]:
        """The body of ``POST /jobs`` (DESIGN §10)."""
        return {
            "name": self.name,
            "job_type": "webhook",
            "schedule": dict(self.schedule),
            "payload": {"url": receiver_url + self.path, "body": {"from": self.tenant, "job": self.name}},
            "priority": self.priority,
            "timeout_seconds": 10,
            "retry_policy": dict(QUICK_RETRIES),
        }


@dataclass(frozen=True, kw_only=True)
class CreatedJob:
    """A sample job that the API has acknowledged."""

    sample: SampleJob
    id: str
    created_at: datetime

    @classmethod
    def from_answer(cls, sample: SampleJob, answer: Mapping[str, Any]) -> "CreatedJob":
        """From the body of the 201."""
        return cls(sample=sample, id=answer["id"], created_at=datetime.fromisoformat(answer["created_at"]))


#: Fired and awaited before the demo begins: only a firing from end to end shows that beat and workers are ready.
WARM_UP = SampleJob(tenant="acme", name="warm-up", schedule={"type": "immediate"}, says="immediate")


def sample_jobs(*, now: datetime) -> list[SampleJob]:
    """The jobs of the demo; ``now`` places the one that fires once."""
    once_at = (now + ONCE_AFTER).astimezone(UTC).replace(microsecond=0)
    return [
        SampleJob(tenant="acme", name="heartbeat", schedule=_every(2), says="every 2 s", priority="critical"),
        SampleJob(
            tenant="acme",
            name="minute-report",
            schedule={"type": "cron", "cron": "* * * * *", "timezone": "Asia/Kolkata"},
            says="* * * * *",
            priority="high",
        ),
        SampleJob(tenant="acme", name="welcome-mail", schedule={"type": "immediate"}, says="immediate"),
        SampleJob(tenant="globex", name="stock-sync", schedule=_every(3), says="every 3 s", priority="high"),
        SampleJob(
            tenant="globex",
            name="flaky-partner",
            schedule=_every(5),
            says="every 5 s",
            reception=Reception.RETRIED,
        ),
        SampleJob(
            tenant="initech", name="printer-poll", schedule=_every(5), says="every 5 s", priority="low"
        ),
        SampleJob(
            tenant="initech",
            name="tps-report",
            schedule={"type": "once", "run_at": instant_text(once_at)},
            says=f"{once_at:%H:%M:%S}Z",
        ),
        SampleJob(
            tenant="initech",
            name="moved-office",
            schedule=_every(10),
            says="every 10 s",
            reception=Reception.REFUSED,
        ),
    ]


def expected_firings(job: CreatedJob, *, until: datetime) -> list[datetime]:
    """The instants up to ``until`` at which ``job`` must have fired, in UTC, ascending."""
    schedule = job.sample.schedule
    if schedule["type"] == "interval":
        every = timedelta(seconds=schedule["every_seconds"])
        count = max(0, (until - job.created_at) // every)
        return [job.created_at + every * k for k in range(1, count + 1)]
    if schedule["type"] == "cron":
        cron = Schedule(type=ScheduleType.CRON, cron=schedule["cron"], timezone=schedule["timezone"])
        return fire_times(cron, after=job.created_at, until=until, limit=MAX_FIRINGS)
    instant = (
        job.created_at if schedule["type"] == "immediate" else datetime.fromisoformat(schedule["run_at"])
    )
    return [instant] if instant <= until else []


def _every(seconds: int) -> dict[str, Any]:
    return {"type": "interval", "every_seconds": seconds}

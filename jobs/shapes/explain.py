"""Why something waits, and how a tenant stands with its quotas."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field, PlainSerializer

from jobs.core.states import JobStatus, TriggerState
from jobs.models import CatchUp
from jobs.shapes.base import Shown, composed
from jobs.shapes.notify import TenantNotify
from jobs.shapes.terms import UNREAD, Number
from tenants.quotas import QUOTAS

#: In the order in which a trigger meets them.
GATE_NAMES = (
    "due", "misfire", "job", "tenant", "leader", "dispatch", "job_type", "tenant_cap", "tenant_rate", "target",
    "breaker", "target_rate",
    "overlap", "concurrency_key", "type_cap", "queue_window", "broker", "worker", "running", "back_off",
)  # fmt: skip
_Gate = Literal[GATE_NAMES]  # type: ignore[valid-type]


class TriggerGate(Shown):
    gate: _Gate = Field(validation_alias="name")
    passed: bool
    detail: str
    """A sentence, with the figures."""
    opens_at: datetime | None
    """When the gate opens, if that is known."""
    limit: Number | None
    """Limit of a gate that counts; null for other gates."""
    used: Number | None
    """How much of the limit is used."""
    blockers: list[UUID]
    """IDs of the triggers that block this one, at most the first ten."""


class BottleneckShape(Shown):
    gate: _Gate | None
    """The gate whose limit was reached; null if no limit of your tenant or of the job type was reached."""
    detail: str
    """A sentence, with the figures."""
    starts_per_second: Annotated[Number, BeforeValidator(lambda each: round(each, 3))]
    """How many of your attempts of this job type started per second."""
    seconds_left: Annotated[Number, BeforeValidator(lambda left: left and round(left))] | None
    """Estimated seconds until it starts at that rate; null if there is no estimate."""


class TriggerExplanation(Shown):
    trigger_id: UUID = Field(validation_alias="id")
    job_id: UUID
    state: TriggerState
    reason: str
    """Why the trigger ended; empty before it has ended."""
    at: datetime = Field(validation_alias="now")
    """When all of this was true."""
    summary: str
    """The answer in a sentence or two."""
    blocking: list[_Gate]
    """The gates that the trigger has not passed, in order."""
    bottleneck: BottleneckShape | None
    """The limit that delayed the trigger in the last minute, if the trigger is late although no gate blocks it."""
    ahead: int
    """Number of triggers of the same job type and priority that are due before it, counted up to 1,000."""
    gates: list[TriggerGate]
    """All gates, in order; empty once the trigger has ended."""


class Unfinished(Shown):
    pending: int
    queued: int
    running: int
    retrying: int


class CatchUpShape(Shown):
    id: UUID
    origin: CatchUp.Origin
    misfire_policy: str = Field(validation_alias="policy")
    from_at: datetime
    until_at: datetime
    cursor: datetime
    """Every firing up to this time has been decided."""
    fired: int
    skipped: int


class JobExplanationShape(Shown):
    job_id: UUID = Field(validation_alias="id")
    status: JobStatus
    status_reason: str
    at: datetime
    """When all of this was true."""
    summary: str
    """The answer in a sentence or two."""
    next_fire_at: datetime | None
    """As on the job itself."""
    unfinished: Unfinished
    """Number of its triggers by state, counted up to 10,000 in total."""
    oldest_waiting: TriggerExplanation | None
    """The waiting trigger with the earliest firing; null if no trigger waits."""
    catch_up: list[CatchUpShape]
    """Catch-ups and backfills that have not finished, newest first."""


Limits = composed(
    "Limits",
    Shown,
    {
        quota.name: (
            int | None if quota.can_be_lifted else int,
            Field(description=quota.help_text("null")),
        )
        for quota in QUOTAS
    },
    doc="The tenant's quotas, as ``tenants.quotas`` has them.",
)


class Usage(Shown):
    jobs: int
    """Number of living jobs."""
    in_flight: int
    """Number of triggers queued or running."""
    queued: int
    running: int
    starts_per_second: Number
    """Number of attempts that started per second, measured over the same time as `recent`."""
    starts_allowed_now: int | None
    """Number of dispatches that the rate limit allows at once; null if there is no limit or it cannot be read."""


class Waits(Shown):
    p50: Number
    p95: Number
    p99: Number


class RecentShape(Shown):
    seconds: Number
    """Length of the time over which starts are counted; less than 60 under high load."""
    starts: int
    """Your attempts that started in that time."""
    share: Number | None
    """Your share of the starts of all tenants, from 0 to 1; null if there were none."""
    wait_seconds: Waits | None
    """Time from due to the first start, for your latest firings within 5 minutes."""
    sample_size: int
    """Number of firings in `wait_seconds`."""


class TenantShape(Shown):
    slug: str
    name: str
    status: Literal["active", "suspended", "frozen"]
    require_if_match: bool
    """PUT, PATCH and DELETE of jobs must name the job's version in If-Match."""
    all_events: bool
    """GET /events also lists each success and each failed attempt that is retried."""
    circuit_breaker: bool
    """Calls to a host stop once they keep failing, until one test call succeeds."""
    notify: Annotated[TenantNotify, UNREAD, PlainSerializer(lambda stored: stored)] | None
    """Notices for all jobs and workflows that have no `notify` of their own."""
    queues: list[str]
    """Queues that `message` and `celery_task` may write to: your own, and those that an operator has added."""
    limits: Limits  # type: ignore[valid-type]
    usage: Usage
    recent: RecentShape

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
    """When it opens, where that is known."""
    limit: Number | None
    """Of gates that count."""
    used: Number | None
    """Of that limit."""
    blockers: list[UUID]
    """Triggers that stand in the way, the first ten."""


class BottleneckShape(Shown):
    gate: _Gate | None
    """The gate whose limit was full; null when no limit of yours or of its job type was."""
    detail: str
    """A sentence, with the figures."""
    starts_per_second: Annotated[Number, BeforeValidator(lambda each: round(each, 3))]
    """Of its job type, yours alone."""
    seconds_left: Annotated[Number, BeforeValidator(lambda left: left and round(left))] | None
    """Until its turn comes at that pace, about; null where nothing tells."""


class TriggerExplanation(Shown):
    trigger_id: UUID = Field(validation_alias="id")
    job_id: UUID
    state: TriggerState
    reason: str
    """Of a trigger that has ended."""
    at: datetime = Field(validation_alias="now")
    """The moment all of this was true."""
    summary: str
    """The answer in a sentence or two."""
    blocking: list[_Gate]
    """The gates it has not passed, in order."""
    bottleneck: BottleneckShape | None
    """Of a trigger that is late though no gate blocks it: what it waited for in the last minute."""
    ahead: int
    """Triggers of the same job type and priority that are due before it; counted to 1,000."""
    gates: list[TriggerGate]
    """In order; none once it has ended."""


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
    """Every firing up to here has been dealt with."""
    fired: int
    skipped: int


class JobExplanationShape(Shown):
    job_id: UUID = Field(validation_alias="id")
    status: JobStatus
    status_reason: str
    at: datetime
    """The moment all of this was true."""
    summary: str
    """The answer in a sentence or two."""
    next_fire_at: datetime | None
    """As on the job itself."""
    unfinished: Unfinished
    """Its triggers by state, counted to 10,000 in all."""
    oldest_waiting: TriggerExplanation | None
    """The trigger that waits for the earliest firing; null when none waits."""
    catch_up: list[CatchUpShape]
    """Missed firings and backfills in hand, newest first."""


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
    """living jobs"""
    in_flight: int
    """triggers queued or running"""
    queued: int
    running: int
    starts_per_second: Number
    """Attempts started lately, as under recent."""
    starts_allowed_now: int | None
    """What the rate limit lets go at once; null without one or while it is away."""


class Waits(Shown):
    p50: Number
    p95: Number
    p99: Number


class RecentShape(Shown):
    seconds: Number
    """How far back starts are counted; less than 60 under high load."""
    starts: int
    """Your attempts that started in that time."""
    share: Number | None
    """Of all tenants' starts; null when there were none."""
    wait_seconds: Waits | None
    """From falling due to the first start, of your latest firings within 5 minutes."""
    sample_size: int
    """How many firings that tells of."""


class TenantShape(Shown):
    slug: str
    name: str
    status: Literal["active", "suspended", "frozen"]
    require_if_match: bool
    """PUT, PATCH and DELETE of jobs must name the version they mean, by If-Match."""
    all_events: bool
    """GET /events also tells of each success and each failed attempt that is retried."""
    circuit_breaker: bool
    """Calls of a host stop once they keep failing, until one call shows that it is back."""
    notify: Annotated[TenantNotify, UNREAD, PlainSerializer(lambda stored: stored)] | None
    """Of all jobs and workflows that have none of their own."""
    queues: list[str]
    """Queues that `message` and `celery_task` may write to: yours, and what an operator granted beside."""
    limits: Limits  # type: ignore[valid-type]
    usage: Usage
    recent: RecentShape

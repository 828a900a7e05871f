"""Firings and what became of them: triggers, attempts, skipped ranges, backfills; events, and who changed what."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from jobs.core.policies import Priority
from jobs.core.states import SKIP_REASONS, AttemptState, TriggerState
from jobs.models import Change, Origin
from jobs.shapes.base import Shown
from jobs.shapes.terms import Seconds, ShownType
from jobs.store.trail import ActorKind


class TriggerShape(Shown):
    id: UUID
    job_id: UUID
    job_type: ShownType
    job_version: int
    origin: Origin
    scheduled_for: datetime
    due_at: datetime
    state: TriggerState
    reason: str
    priority: Annotated[str, BeforeValidator(lambda priority: Priority(priority).label)]
    payload: Any | None
    idempotency_key: str
    fence: int
    attempt_count: int
    crash_count: int
    replay_count: int
    worker: str
    cancel_requested: bool
    progress: Any | None
    checkpoint: Any | None
    result: Any | None
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class OneTrigger(TriggerShape):
    """A trigger read by itself, with what takes a look elsewhere."""

    duplicates_prevented: int
    """How often an effect was left out because an earlier execution had made it (ctx.once)."""


class SkippedRangeShape(Shown):
    from_at: datetime
    until_at: datetime
    """The last of them."""
    count: int
    reason: Literal[SKIP_REASONS]  # type: ignore[valid-type]


class AttemptShape(Shown):
    id: UUID
    trigger_id: UUID
    job_id: UUID
    number: int
    fence: int
    worker: str
    celery_task_id: str
    state: AttemptState
    started_at: datetime
    finished_at: datetime | None
    duration_seconds: Seconds | None = Field(validation_alias="duration")
    error_code: str
    error_class: str
    error_message: str
    traceback: str
    http_status: int | None
    response_excerpt: str
    claimed_with: int


class ExtentShape(Shown):
    start: datetime
    end: datetime
    count: int
    """Firings from start to end."""
    existing: int
    """Those that have a trigger already; they are left alone."""


class BackfillShape(Shown):
    id: UUID
    job_id: UUID
    job_version: int
    """Whose schedule names the firings."""
    start: datetime = Field(validation_alias="from_at")
    end: datetime = Field(validation_alias="until_at")
    count: int = Field(validation_alias="expected")
    """Firings from start to end."""
    materialized: int = Field(validation_alias="fired")
    """Those that have got their trigger so far."""
    cursor: datetime | None
    """Every firing up to here has its trigger."""
    created_at: datetime
    finished_at: datetime | None
    """When the last had its trigger, or an edit or cancel ended it early."""


class ReplayCount(Shown):
    replayed: int


class EventShape(Shown):
    id: str
    """Its place in the feed, for after and Last-Event-ID."""
    at: datetime
    kind: str
    """Such as job.paused or trigger.dead; see docs/events.md."""
    job_id: UUID
    trigger_id: UUID | None
    """Null for jobs and for ranges of firings."""
    data: dict[str, Any]


class _Feed(Shown):
    cursor: str
    """Go on from here, also when there was nothing."""
    more: bool
    """There is more to read at once."""


class Events(_Feed):
    results: list[EventShape]


class ChangedObject(Shown):
    kind: Literal[tuple(Change.Kind.values[:5])]  # type: ignore[valid-type]
    id: str = Field(validation_alias="object_id")
    name: str


class ActorShape(Shown):
    kind: ActorKind
    name: str | None
    """Of keys, their prefix and name; null for those who run this installation."""


class Column(Shown):
    before: Any | None
    after: Any | None


class ChangeShape(Shown):
    id: str
    """Its place in the trail, for after."""
    at: datetime
    object: ChangedObject
    action: Change.Action
    actor: ActorShape
    changes: dict[str, Column | None]
    """By column; null where values are not kept: payloads, notify, secrets, and whatever is long."""


class ChangesShape(_Feed):
    results: list[ChangeShape]

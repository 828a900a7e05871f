"""Firings and what became of them: triggers, attempts, skipped ranges, backfills; how those of a job and of a
tenant went; events, and who changed what."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from jobs.core.policies import Priority
from jobs.core.states import SKIP_REASONS, AttemptState, TriggerState
from jobs.models import Change, Origin
from jobs.shapes.base import Shown
from jobs.shapes.explain import Waits
from jobs.shapes.job import JobShape
from jobs.shapes.terms import Instant, Number, Seconds, ShownType
from jobs.store.insight.outcomes import MAX_ATTEMPTS, MAX_FAILURES, WINDOWS
from jobs.store.insight.series.totals import MAX_TYPES
from jobs.store.trail import ActorKind


class TriggerShape(Shown):
    id: UUID
    job_id: UUID
    job_type: ShownType
    job_version: int
    origin: Origin
    workflow_run_id: UUID | None
    """Of the run, for a task of a workflow."""
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
    dismissed_at: datetime | None
    """Since when this dead letter needs nobody any more; dismissed_by said so, with dismissed_note."""
    dismissed_by: str
    dismissed_note: str


class OneTrigger(TriggerShape):
    """A trigger read by itself, with what takes a look elsewhere."""

    duplicates_prevented: int
    """How often an effect was left out because an earlier execution had made it (ctx.once)."""
    trace_id: str | None
    """Of the trace that its caller named."""


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
    output_bytes: int
    """How long what it printed is; 0: nothing was kept."""
    claimed_with: int


class OneAttempt(AttemptShape):
    """An attempt by itself."""

    output: Annotated[str, BeforeValidator(lambda kept: kept or "")]
    """What its handler printed, 64 KiB at most: of more the middle is left out."""


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


class OneJob(JobShape):
    """A job by itself, with what takes a look at its history."""

    last_fired_at: Instant | None = Field(...)
    """When its latest attempt started; null before the first, and when history no longer has it."""
    last_state: TriggerState | None = Field(...)
    """What has become of the firing of that attempt so far."""
    last_error_code: str | None = Field(...)
    """Of its latest attempt that has ended; null if that succeeded."""
    consecutive_failures: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_FAILURES,
            description=f"Firings in a row that died since one succeeded, in the order in which they ran, among its "
            f"latest {MAX_ATTEMPTS:,} attempts. {MAX_FAILURES} means {MAX_FAILURES} or more.",
        ),
    ]


#: The fields of ``OneJob`` that a list does not have.
OF_HISTORY = OneJob.model_fields.keys() - JobShape.model_fields.keys()


class Spread(Waits):
    """Percentiles in seconds, right within five per cent."""

    sample_size: int
    """How many firings they are of."""


class _Outcomes(Shown):
    succeeded: int
    dead: int
    skipped: int
    cancelled: int
    success_rate: Number | None
    """Succeeded of those that succeeded or are dead, 0 to 1; null without any."""


class _Figures(_Outcomes):
    skipped: int
    """Those of ranges are taken as even over the range's time."""
    unfinished: int
    start_lag_seconds: Spread | None
    """From falling due to the start, of firings that were tried once."""
    duration_seconds: Spread | None
    """From the start to the end, of firings that were tried once."""
    complete: bool
    """False: there were more firings than are looked at. Counts are then those of a sample, spread over the time, and
    lower than what there was; the rate and the percentiles are the sample's."""


class JobStatsTotal(_Figures):
    pass


class JobStatsBucket(_Figures):
    at: datetime
    """Where it begins; it ends where the next begins, the last at until."""


class JobStats(Shown):
    job_id: UUID
    window: Literal[tuple(WINDOWS)]  # type: ignore[valid-type]
    since: datetime
    """Where the bucket begins in which the window does, by UTC."""
    until: datetime
    """Now. Firings are counted at the time they are scheduled for."""
    bucket_seconds: int
    total: JobStatsTotal
    buckets: list[JobStatsBucket]
    """The oldest first, empty ones too."""


class CoarseSpread(Waits):
    """Percentiles in seconds, from buckets whose ends are up to three times apart: between them they are taken as even.
    Nothing above an hour is told apart."""

    sample_size: int
    """How many attempts they are of."""


class _TenantFigures(_Outcomes):
    retried: int
    """Attempts after which another was due."""
    start_lag_seconds: CoarseSpread | None
    """From falling due to the start, of each attempt; of one after a back-off, from its end."""
    duration_seconds: CoarseSpread | None
    """From the start to the end, of each attempt."""


class TenantStatsTotal(_TenantFigures):
    pass


class TenantStatsBucket(_TenantFigures):
    at: datetime
    """Where it begins; it ends where the next begins, the last at until."""


class TenantStatsType(_TenantFigures):
    job_type: ShownType


class TenantStats(Shown):
    window: Literal[tuple(WINDOWS)]  # type: ignore[valid-type]
    since: datetime
    """Where the bucket begins in which the window does, by UTC."""
    until: datetime
    """Now. What happened is counted at the time it happened, within a second or two; a firing that was replayed is
    counted again."""
    bucket_seconds: int
    total: TenantStatsTotal
    buckets: list[TenantStatsBucket]
    """The oldest first, empty ones too."""
    job_types: Annotated[
        list[TenantStatsType], Field(description=f"The {MAX_TYPES} of which most started, the busiest first.")
    ]


class DismissCount(Shown):
    dismissed: int
    """Those that are no dead letters, or were dismissed before, are left out."""


class ReplayCount(Shown):
    replayed: int


class EventShape(Shown):
    id: str
    """Its place in the feed, for after and Last-Event-ID."""
    at: datetime
    kind: str
    """Such as job.paused or trigger.dead; see docs/events.md."""
    job_id: UUID | None
    """Null for workflows and their runs."""
    trigger_id: UUID | None
    """Null for jobs, ranges of firings, workflows and their runs."""
    workflow_id: UUID | None
    """Of workflows, their runs, and triggers of their tasks."""
    workflow_run_id: UUID | None
    """Of runs, and triggers of their tasks."""
    data: dict[str, Any]


class _Feed(Shown):
    cursor: str
    """Go on from here, also when there was nothing."""
    more: bool
    """There is more to read at once."""


class Events(_Feed):
    results: list[EventShape]


#: Kinds of what no tenant has: it finds none of them on its trail.
_OF_INSTALLATION = {Change.Kind.USER, Change.Kind.GROUP, Change.Kind.INSTALLATION, Change.Kind.TARGET}
_KINDS = tuple(kind.value for kind in Change.Kind if kind not in _OF_INSTALLATION)


class ChangedObject(Shown):
    kind: Literal[_KINDS]  # type: ignore[valid-type]
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

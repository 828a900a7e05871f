"""Firings and their outcomes: triggers, attempts, skipped ranges, backfills; figures of a job's and of a tenant's
firings; events, and changes with their actors."""

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
    """ID of the workflow run, if the trigger is a task of one."""
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
    """When this dead letter was dismissed; dismissed_by says by which actor, and dismissed_note says why."""
    dismissed_by: str
    dismissed_note: str


class OneTrigger(TriggerShape):
    """A trigger read by itself, with fields that need further reads."""

    duplicates_prevented: int
    """How often an effect was skipped because an earlier execution had already made it (ctx.once)."""
    trace_id: str | None
    """ID of the trace that its caller named."""


class SkippedRangeShape(Shown):
    from_at: datetime
    until_at: datetime
    """Time of the last skipped firing."""
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
    """Size of the output that was kept; 0 if none was kept."""
    claimed_with: int


class OneAttempt(AttemptShape):
    """An attempt by itself."""

    output: Annotated[str, BeforeValidator(lambda kept: kept or "")]
    """Output of its handler, at most 64 KiB: the middle of a longer output is left out."""


class ExtentShape(Shown):
    start: datetime
    end: datetime
    count: int
    """Number of firings from start to end."""
    existing: int
    """Number of firings that already have a trigger; a backfill leaves them as they are."""


class BackfillShape(Shown):
    id: UUID
    job_id: UUID
    job_version: int
    """Version of the job whose schedule gives the firings."""
    start: datetime = Field(validation_alias="from_at")
    end: datetime = Field(validation_alias="until_at")
    count: int = Field(validation_alias="expected")
    """Number of firings from start to end."""
    materialized: int = Field(validation_alias="fired")
    """Number of firings that have their trigger so far."""
    cursor: datetime | None
    """Every firing up to this time has its trigger."""
    created_at: datetime
    finished_at: datetime | None
    """When the last firing got its trigger, or when an edit or a cancel ended the backfill early."""


class OneJob(JobShape):
    """A job by itself, with fields that need reads of its history."""

    last_fired_at: Instant | None = Field(...)
    """When its latest attempt started; null before the first attempt, and once history no longer has it."""
    last_state: TriggerState | None = Field(...)
    """Present state of the firing of that attempt."""
    last_error_code: str | None = Field(...)
    """Error code of its latest attempt that has ended; null if that attempt succeeded."""
    consecutive_failures: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_FAILURES,
            description=f"Number of firings that died since the last success, in the order in which they ran, "
            f"among its latest {MAX_ATTEMPTS:,} attempts. {MAX_FAILURES} means {MAX_FAILURES} or more.",
        ),
    ]


#: The fields of ``OneJob`` that a list does not have.
OF_HISTORY = OneJob.model_fields.keys() - JobShape.model_fields.keys()


class Spread(Waits):
    """Percentiles in seconds, accurate within five per cent."""

    sample_size: int
    """Number of firings in the sample."""


class _Outcomes(Shown):
    succeeded: int
    dead: int
    skipped: int
    cancelled: int
    success_rate: Number | None
    """Share of successes among the firings that succeeded or died, from 0 to 1; null if there are none."""


class _Figures(_Outcomes):
    skipped: int
    """Number of skipped firings. Those of a skipped range count as spread evenly over the time of the range."""
    unfinished: int
    start_lag_seconds: Spread | None
    """Time from due to start, for firings that had one attempt."""
    duration_seconds: Spread | None
    """Time from start to end, for firings that had one attempt."""
    complete: bool
    """False: there were more firings than the limit of this read. Counts are then those of a sample, spread over the
    time, and lower than the true counts; the rate and the percentiles are those of the sample."""


class JobStatsTotal(_Figures):
    pass


class JobStatsBucket(_Figures):
    at: datetime
    """When the bucket begins. It ends when the next one begins; the last one ends at until."""


class JobStats(Shown):
    job_id: UUID
    window: Literal[tuple(WINDOWS)]  # type: ignore[valid-type]
    since: datetime
    """When the first bucket begins: the one that contains the start of the window. Buckets are aligned to UTC."""
    until: datetime
    """Now. Firings are counted at the time they are scheduled for."""
    bucket_seconds: int
    total: JobStatsTotal
    buckets: list[JobStatsBucket]
    """All buckets, including empty ones, oldest first."""


class CoarseSpread(Waits):
    """Percentiles in seconds, from a histogram. A bucket's upper bound is up to three times its lower bound, and values
    count as spread evenly within a bucket. All values above an hour are in one bucket."""

    sample_size: int
    """Number of attempts in the sample."""


class _TenantFigures(_Outcomes):
    retried: int
    """Number of attempts that were followed by a retry."""
    start_lag_seconds: CoarseSpread | None
    """Time from due to start of each attempt; for a retry, from the end of its back-off."""
    duration_seconds: CoarseSpread | None
    """Time from start to end of each attempt."""


class TenantStatsTotal(_TenantFigures):
    pass


class TenantStatsBucket(_TenantFigures):
    at: datetime
    """When the bucket begins. It ends when the next one begins; the last one ends at until."""


class TenantStatsType(_TenantFigures):
    job_type: ShownType


class TenantStats(Shown):
    window: Literal[tuple(WINDOWS)]  # type: ignore[valid-type]
    since: datetime
    """When the first bucket begins: the one that contains the start of the window. Buckets are aligned to UTC."""
    until: datetime
    """Now. Each event is counted at the time it happened, within a second or two; a replayed firing is counted
    again."""
    bucket_seconds: int
    total: TenantStatsTotal
    buckets: list[TenantStatsBucket]
    """All buckets, including empty ones, oldest first."""
    job_types: Annotated[
        list[TenantStatsType],
        Field(description=f"The {MAX_TYPES} job types with the most starts, the busiest first."),
    ]


class DismissCount(Shown):
    dismissed: int
    """Number of dead letters dismissed; triggers that are not dead or were already dismissed do not count."""


class ReplayCount(Shown):
    replayed: int


class EventShape(Shown):
    id: str
    """Position of the event in the feed, for `after` and `Last-Event-ID`."""
    at: datetime
    kind: str
    """Kind of the event, such as job.paused or trigger.dead; see docs/events.md."""
    job_id: UUID | None
    """Null for workflows and their runs."""
    trigger_id: UUID | None
    """Null for jobs, ranges of firings, workflows and their runs."""
    workflow_id: UUID | None
    """ID of the workflow, for events of workflows, their runs, and triggers of their tasks."""
    workflow_run_id: UUID | None
    """ID of the run, for events of runs and of triggers of their tasks."""
    data: dict[str, Any]


class _Feed(Shown):
    cursor: str
    """Where the next read starts, even if this one found nothing."""
    more: bool
    """True if more can be read at once."""


class Events(_Feed):
    results: list[EventShape]


#: Kinds of objects that no tenant has: a tenant finds none of them on its trail.
_OF_INSTALLATION = {Change.Kind.USER, Change.Kind.GROUP, Change.Kind.INSTALLATION, Change.Kind.TARGET}
_KINDS = tuple(kind.value for kind in Change.Kind if kind not in _OF_INSTALLATION)


class ChangedObject(Shown):
    kind: Literal[_KINDS]  # type: ignore[valid-type]
    id: str = Field(validation_alias="object_id")
    name: str


class ActorShape(Shown):
    kind: ActorKind
    name: str | None
    """Name of the actor, for a key its prefix and name; null for an operator of this installation."""


class Column(Shown):
    before: Any | None
    after: Any | None


class ChangeShape(Shown):
    id: str
    """Position of the change in the trail, for `after`."""
    at: datetime
    object: ChangedObject
    action: Change.Action
    actor: ActorShape
    changes: dict[str, Column | None]
    """Changes by column; null for values that are not kept: payloads, notify, secrets, and long values."""


class ChangesShape(_Feed):
    results: list[ChangeShape]

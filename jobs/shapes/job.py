"""Jobs as they are written, edited and read."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from jobs.core.errors import InvalidInput
from jobs.core.labels import MAX_LABELS, WORD, read_labels
from jobs.core.policies import Delivery, MisfirePolicy, OverlapPolicy, Priority
from jobs.core.states import JobStatus
from jobs.handlers import registry
from jobs.shapes.base import Shape, Shown, changes_of
from jobs.shapes.notify import Notify
from jobs.shapes.retry import Retry, RetryChanges
from jobs.shapes.schedule import ONE_TIME, ScheduleChanges, ScheduleShape
from jobs.shapes.terms import Between, Instant, Line, Text

MAX_NAME = 200
#: The most characters of the reason why a job is paused.
MAX_REASON = 500
NAME = Line(MAX_NAME)
#: The statuses that a caller may bring a job to.
STATUSES = ("active", "paused", "cancelled")
PRIORITIES = tuple(priority.label for priority in Priority)
_JobType = Annotated[str, Text(63, pattern=f"^{registry.NAME.pattern}$")]
#: Read once, as nothing can change it.
_USUAL_RETRIES = Retry.read({})
_Word = Annotated[str, Text(63, pattern=f"^{WORD}$")]
Labels = Annotated[
    dict[str, _Word], BeforeValidator(read_labels), Field(json_schema_extra={"maxProperties": MAX_LABELS})
]
MaxConcurrent = Annotated[int, Between(1, 1_000_000)]
MisfireGrace = Annotated[float, Between(1, 7 * 86_400)]
CatchupWindow = Annotated[float, Between(0, 366 * 86_400)]
MaxCatchup = Annotated[int, Between(1, 10_000)]


class Definition(Shape):
    """A job as it is written."""

    drops_null = True
    hints = {
        "": "A job is a JSON object.",
        "job_type": "Is required: one of GET /job-types.",
        "schedule": 'Is required, such as {"type": "cron", "cron": "0 2 * * *", "timezone": "UTC"}.',
        "status": "Is not part of the definition; use pause, resume or cancel.",
        **dict.fromkeys(
            (
                *("id", "status_reason", "paused_until", "version", "next_fire_at"),
                *("created_at", "updated_at", "expires_at"),
            ),
            "Cannot be written; leave it out.",
        ),
        **dict.fromkeys(
            ("last_fired_at", "last_state", "last_error_code", "consecutive_failures"),
            "Cannot be written; leave it out.",
        ),
    }
    name: Annotated[str, NAME] | None = Field(default=None, validate_default=True)
    """Unique among your jobs; optional for schedules of type once and immediate."""
    labels: Labels = {}
    """Up to 32 keys and values of 1 to 63 letters, digits, _ . / and -; lists can be filtered by them."""
    job_type: _JobType
    """One of GET /job-types."""
    schedule: ScheduleShape
    payload: dict[str, Any] = {}
    """Must match the payload schema of the job type."""
    priority: Literal[PRIORITIES] = Priority.MEDIUM.label  # type: ignore[valid-type]
    timeout_seconds: Annotated[float, Between(0.1, 86_400)] | None = None
    """Time limit of one attempt; the job type's by default."""
    retry_policy: Retry = Field(default_factory=lambda: _USUAL_RETRIES)
    overlap_policy: OverlapPolicy = OverlapPolicy.SKIP
    max_concurrent: MaxConcurrent = 1
    concurrency_key: Annotated[str, Line(MAX_NAME, blank=True)] = ""
    """If set, max_concurrent limits all of your jobs with this key together."""
    misfire_policy: MisfirePolicy | None = None
    """fire_all by default for schedules of type once and immediate, fire_once for others."""
    misfire_grace_seconds: MisfireGrace = 60
    catchup_window_seconds: CatchupWindow = 3600
    max_catchup: MaxCatchup = 100
    """Most missed firings that run, for misfire_policy backfill."""
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    notify: Notify | None = None
    """Notices of the job; the tenant's `notify` by default."""
    pause_after_failures: Annotated[int, Between(1, 100)] | None = None
    """Pause the job after this many of its firings in a row died."""
    delete_after_seconds: Annotated[float, Between(0, 3650 * 86_400)] | None = None
    """Delete the job this long after it was completed or cancelled; by default the installation decides (30 days)."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is None and not (info.context or {}).get("nameless"):
            raise InvalidInput({"": "Is required: 1 to 200 characters, unique among your jobs."})
        return name

    def columns(self) -> dict[str, Any]:
        """The columns of ``Job`` that follow from the definition alone."""
        one_time = self.schedule.root.type in ONE_TIME
        misfire = self.misfire_policy or (MisfirePolicy.FIRE_ALL if one_time else MisfirePolicy.FIRE_ONCE)
        return {
            "name": self.name or "",
            "labels": self.labels,
            **self.schedule.columns(),
            "priority": int(Priority.from_label(self.priority)),
            "retry_policy": self.retry_policy.stored(),
            "overlap_policy": self.overlap_policy.value,
            "max_concurrent": self.max_concurrent,
            "concurrency_key": self.concurrency_key,
            "misfire_policy": misfire.value,
            "misfire_grace": timedelta(seconds=self.misfire_grace_seconds),
            "catchup_window": timedelta(seconds=self.catchup_window_seconds),
            "max_catchup": self.max_catchup,
            "delivery": self.delivery.value,
            "notify": self.notify and self.notify.stored(),
            "pause_after_failures": self.pause_after_failures,
            "delete_after": None
            if self.delete_after_seconds is None
            else timedelta(seconds=self.delete_after_seconds),
        }


class Replacement(Definition):
    """The whole of a definition; a field that is left out goes back to its default. The path holds the name."""

    name: Annotated[str, NAME] | None = None
    """The name in the path, or left out."""


_PARTS: dict[str, Any] = {
    "labels": Annotated[
        dict[str, _Word | None],
        Field(description="Null removes a label.", json_schema_extra={"maxProperties": MAX_LABELS}),
    ],
    "schedule": ScheduleChanges,
    "retry_policy": RetryChanges,
}
Changes = changes_of("Changes", Definition, doc="Any part of a definition (JSON merge patch).", **_PARTS)
_OfMany: Any = changes_of("ChangesOfMany", Definition, doc="", without=("name",), **_PARTS)


class ChangesOfMany(_OfMany):  # type: ignore[misc]
    """Any part of a definition except its name (JSON merge patch)."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})
    hints = {**Definition.hints, "name": "Belongs to a single job; edit that job by itself."}


_Wall = Annotated[str, BeforeValidator(datetime.isoformat)]
_Local = Annotated[_Wall, WithJsonSchema({"type": "string", "format": "date-time"})]


class ClockChange(Shown):
    at: datetime
    """When the job fires, or would have fired."""
    local: _Local
    """The same instant in the schedule's time zone."""
    note: str


class FiringShape(Shown):
    at: datetime
    local: _Local
    """The same instant in the schedule's time zone."""
    wall: _Wall
    """The wall-clock time that the schedule names, without an offset."""
    note: str | None
    """How a change of clocks affects this firing; null if none does."""


class Preview(Shown):
    description: str
    """The schedule in words."""
    tzdata: str
    """Release of the time zone database in use, such as 2026a."""
    firings: list[FiringShape]


def _all_there(schema: dict[str, Any]) -> None:
    for told in schema["properties"].values():
        told.pop("default", None)
    schema["required"] = list(schema["properties"])


class JobShape(Definition):
    """A job as it is read, with every field of it."""

    model_config = ConfigDict(json_schema_extra=_all_there)
    id: UUID
    name: str
    labels: dict[str, str]
    job_type: str
    payload: dict[str, Any]
    timeout_seconds: float
    """Time limit of one attempt."""
    retry_policy: Retry
    concurrency_key: str
    misfire_policy: MisfirePolicy
    status: JobStatus
    status_reason: str
    paused_until: Instant | None = Field(...)
    """When the pause ends by itself; null: only when the job is resumed."""
    version: int
    next_fire_at: Instant | None = Field(...)
    """When the job fires next; null if it has no further firing or is not active."""
    clock_change: ClockChange | None = Field(...)
    """The next firing that a change of clocks moves, doubles or prevents, within 30 days."""
    created_at: Instant
    updated_at: Instant
    expires_at: Instant | None = Field(...)
    """When the job will be deleted; null while it has not ended."""


class Status(Shape):
    drops_null = True
    hints = {"status": f"Must be one of {', '.join(STATUSES)}."}
    status: Literal[STATUSES]  # type: ignore[valid-type]


class Pause(Shape):
    drops_null = True
    reason: Annotated[str, Line(MAX_REASON, blank=True)] = ""
    """Why the job is paused; shown as its status_reason."""
    until: Instant | None = None
    """When the job resumes by itself."""


class Run(Shape):
    drops_null = True
    payload: dict[str, Any] | None = None
    """Replaces the job's payload for this trigger only. Must match the payload schema of the job type."""
    ignore_overlap: StrictBool = False
    """Start it beside other triggers of the job, regardless of the job's overlap_policy and max_concurrent."""


class PreviewRequest(Shape):
    drops_null = True
    hints = {"schedule": Definition.hints["schedule"]}
    schedule: ScheduleShape
    after: Instant | None = None
    """Show the firings after this time; now by default."""
    count: Annotated[int, Between(1, 1000)] = 10

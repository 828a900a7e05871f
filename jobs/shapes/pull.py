"""The requests of pull workers and their answers: claims, heartbeats, ends of attempts; and the job types there are."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, model_validator

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json
from jobs.core.pull import MAX_NAME_LENGTH
from jobs.handlers import outcome as outcomes
from jobs.handlers.context import MAX_CHECKPOINT_BYTES, MAX_STAGE_LENGTH
from jobs.handlers.outcome import Outcome, storable_text
from jobs.handlers.registry import NAME
from jobs.shapes.base import OneOf, Shape, Shown
from jobs.shapes.terms import Between, Line, Says, Seconds, ShownType, Text
from jobs.store.execution import ClaimToken

#: The names that a tenant may give a type of its own.
PULL_TYPE = f"^[a-z][a-z0-9_.]{{0,{MAX_NAME_LENGTH - 1}}}$"


class _Sent(Shape):
    drops_null = True


class Declaration(_Sent):
    description: Annotated[str, Line(500, blank=True)] = ""
    payload_schema: dict[str, Any] | None = None
    """JSON Schema (2020-12), without patterns and external references."""
    timeout_seconds: Annotated[float, Between(1, 86_400)] = 60
    """Time limit of one attempt; 60 by default."""
    max_in_flight: Annotated[int, Between(1, 1_000_000)] | None = None
    """Most triggers queued or running at once."""


class JobTypeShape(Shown):
    name: str
    pull: bool
    """Your pull workers may claim its triggers."""
    description: str
    timeout_seconds: Seconds = Field(validation_alias="timeout")
    batch_size: int
    max_in_flight: int | None
    payload_schema: dict[str, Any] | None
    """JSON Schema of the payload."""


class JobTypes(Shown):
    results: list[JobTypeShape]


class ClaimRequest(_Sent):
    hints = {"worker": "Is required: a name of this worker, such as its host and process."}
    worker: Annotated[str, Line(100)]
    """Name of this worker, which the history of attempts shows."""
    job_types: Annotated[
        list[Annotated[str, Text(63, pattern=f"^{NAME.pattern}$")]], Field(min_length=1, max_length=100)
    ]
    """1 to 100 types that pull workers may serve."""
    capacity: Annotated[int, Between(1, 100)] = 1
    """How many triggers the worker can start now; 1 by default."""
    wait_seconds: Annotated[float, Between(0, 30)] = 0
    """How long to wait while there is no work; 0 by default."""


class WorkflowOfTask(Shown):
    workflow_id: UUID
    workflow_name: str
    version: int
    """Version of the workflow that the run executes; a later edit does not change it."""
    run_id: UUID
    task: str
    scheduled_for: datetime
    """Scheduled time of the run."""
    input: Any
    """Input of the run."""


class Work(Shown):
    trigger_id: UUID = Field(validation_alias="id")
    fence: int
    """Proof of ownership: every report must contain it."""
    attempt_id: UUID
    attempt_number: int = Field(validation_alias="attempt_count")
    job_id: UUID
    job_name: str
    job_type: ShownType
    scheduled_for: datetime
    idempotency_key: str
    """The same for every attempt at this firing."""
    timeout_seconds: Seconds = Field(validation_alias="timeout")
    """Time limit of the attempt. After it heartbeats no longer keep the trigger."""
    payload: dict[str, Any]
    checkpoint: dict[str, Any] | None
    """Checkpoint that an earlier attempt saved."""
    traceparent: str | None
    """Trace context of the attempt (W3C Trace Context). Send it with the requests that the attempt makes."""
    tracestate: str | None
    workflow: WorkflowOfTask | None
    """The workflow run whose task this trigger is; null for a firing of a job."""


class Claimed(Shown):
    triggers: list[Work]
    lease_seconds: Seconds
    """Send a heartbeat well within this time."""


class _Held(_Sent):
    hints = {"": "Must be an object with trigger_id and fence."}
    trigger_id: Annotated[UUID, Says("Must be the trigger_id that the claim answered.")]
    fence: Annotated[int, Between(0, 2**31 - 1)]

    @property
    def token(self) -> ClaimToken:
        return ClaimToken(self.trigger_id, self.fence)


class Progress(_Sent):
    hints = {"": 'Must be an object such as {"fraction": 0.5, "stage": "rendering"}.'}
    fraction: Annotated[float, Between(0, 1)]
    stage: Annotated[str, Line(MAX_STAGE_LENGTH, blank=True)] = ""


def _storable(max_bytes: int) -> AfterValidator:
    def check(value: Any) -> Any:
        check_json(value, field="", max_bytes=max_bytes)
        return value

    return AfterValidator(check)


class _Speaks(_Held):
    output: str | None = None
    """All output so far; it replaces the output sent before. The middle of more than 64 KiB is left out."""


class SentReport(_Speaks):
    model_config = ConfigDict(title="Report")
    progress: Progress | None = None
    checkpoint: Annotated[dict[str, Any], _storable(MAX_CHECKPOINT_BYTES)] | None = None
    """Saved for the next attempt, if there is one."""


class HeartbeatRequest(_Sent):
    triggers: Annotated[list[SentReport], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len({report.trigger_id for report in self.triggers}) < len(self.triggers):
            raise InvalidInput({"triggers": "Names a trigger twice."})
        return self


class HeldShape(Shown):
    trigger_id: UUID
    status: Literal["held", "cancel", "timed_out", "lost"]
    """held: go on. cancel: stop and complete as cancelled. timed_out, lost: stop, the trigger is no longer yours."""


class Heartbeat(Shown):
    triggers: list[HeldShape]


class Error(_Sent):
    """Texts that are too long are cut, as those of a Python handler are: they never cost the report."""

    message: str = ""
    code: Annotated[str, Text(64, min_length=0)] = ""
    """Error code, which filters can select; worker_failed by default."""
    kind: Annotated[str, Text(200, min_length=0)] = ""
    """Kind of the error, such as the exception's class."""
    traceback: str = ""


class Success(_Speaks):
    outcome: Literal["succeeded"]
    result: Annotated[Any, _storable(outcomes.MAX_RESULT_BYTES)] = None
    """Result as JSON, at most 64 KiB."""

    def ended(self) -> Outcome:
        return Outcome("succeeded", result=self.result)


class Failure(_Speaks):
    hints = {"result": "Belongs to a success; leave it out."}
    outcome: Literal["failed"]
    error: Error = Field(default_factory=Error)
    permanent: StrictBool = False
    """Bury the trigger, because no retry can help."""
    retry_after_seconds: Annotated[float, Between(0, 86_400)] | None = None
    """Wait at least this long before the next retry."""
    pause_job: StrictBool = False
    """Also pause the job; only with permanent: true."""

    @model_validator(mode="after")
    def _check_pause(self) -> Self:
        if self.pause_job and not self.permanent:
            raise InvalidInput({"pause_job": "Goes with permanent: true only."})
        return self

    def ended(self) -> Outcome:
        told, after = self.error, self.retry_after_seconds
        return Outcome(
            "failed",
            permanent=self.permanent,
            pause_job=self.pause_job,
            retry_after=None if after is None else timedelta(seconds=after),
            error_code=storable_text(told.code or "worker_failed", max_bytes=64),
            error_class=storable_text(told.kind, max_bytes=200),
            error_message=storable_text(told.message, max_bytes=outcomes.MAX_MESSAGE_BYTES),
            traceback=storable_text(told.traceback, max_bytes=outcomes.MAX_TRACEBACK_BYTES, keep="tail"),
        )


class Stopped(_Speaks):
    hints = Failure.hints
    outcome: Literal["cancelled"]

    def ended(self) -> Outcome:
        return outcomes.cancelled(message="The worker stopped because its trigger was cancelled.")


_OF_FAILURE = Failure.model_fields.keys() - Success.model_fields.keys()
Success.hints = dict.fromkeys(_OF_FAILURE, "Belongs to a failure; leave it out.")
Stopped.hints = Success.hints | Failure.hints


class CompleteRequest(OneOf[Annotated[Success | Failure | Stopped, Field(discriminator="outcome")]]):
    """The outcome says which fields it has."""

    drops_null = True
    hints = {"outcome": "Is required: succeeded, failed or cancelled."}


class CompletedShape(Shown):
    trigger_id: UUID
    fence: int
    attempt_id: UUID
    attempt_number: int
    attempt_state: str
    """Outcome of the attempt: succeeded, failed or cancelled."""

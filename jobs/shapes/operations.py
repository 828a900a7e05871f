"""Requests for many at once: bulks of jobs, operations and replays by a filter, backfills of a stretch of time.

``jobs.selection.filters`` decide which rows a filter means, and read it as they read a query. Here it is described.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Discriminator, Field, StrictBool, Tag

from jobs.core.errors import InvalidInput, unknown
from jobs.core.labels import SELECTOR
from jobs.core.schedule import ScheduleType
from jobs.core.states import REASONS, UNFINISHED, JobStatus, TriggerState
from jobs.core.workflows.states import RunState
from jobs.models.operation import FASTEST, JOB_VERBS, RUN_VERBS, SLOWEST, TRIGGER_VERBS
from jobs.shapes.base import LEFT_OUT, OneOf, Problem, Shape, Shown
from jobs.shapes.history import Column
from jobs.shapes.job import MAX_NAME, PRIORITIES, ChangesOfMany, Definition
from jobs.shapes.terms import LINE, UNREAD, Between, Instant, Line, Number, Says, Text

VERBS = (*JOB_VERBS, *TRIGGER_VERBS, *RUN_VERBS)
EVERY_REASON = tuple(reason for reasons in REASONS.values() for reason in reasons)
MAX_JOBS = 1000
MAX_IDS = 1000
#: As the column.
MAX_NOTE = 500
#: Ids of jobs in a filter: one to a hundred.
_ID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
IDS = f"^{_ID}(,{_ID}){{0,99}}$"
MAX_ID_TEXT = 37 * 100
_FILTER = "Must be an object; {} means all of them."
_Line = Annotated[str, Text(MAX_NAME, pattern=LINE)]
_Type = Annotated[str, Text(63)]
_Pace = Annotated[float, Between(SLOWEST, FASTEST)] | None


class _Asked(Shape):
    drops_null = True


class Bulk(_Asked):
    jobs: Annotated[list[Annotated[Definition, UNREAD]], Field(min_length=1, max_length=MAX_JOBS)]
    """1 to 1,000 definitions."""
    all_or_nothing: StrictBool = False
    """Refuse all of them if one has to be refused."""
    dry_run: StrictBool = False
    """Check everything but store nothing. The answer is the same, without ids."""


class BulkItem(Shown):
    """The outcome of one definition."""

    index: int
    """Position of the definition in jobs, from 0."""
    status: int
    """HTTP status: 201, or the status of the problem."""
    id: UUID = LEFT_OUT
    name: str = LEFT_OUT
    version: int = LEFT_OUT
    next_fire_at: datetime | None = None
    problem: Problem = LEFT_OUT


class BulkAnswer(Shown):
    created: int
    refused: int
    results: list[BulkItem]
    """One result for each definition, in order."""


class JobsFilter(_Asked):
    """As in a query of GET /jobs."""

    ids: Annotated[str, Text(MAX_ID_TEXT, pattern=IDS)] | None = None
    status: JobStatus | None = None
    job_type: _Type | None = None
    priority: Literal[PRIORITIES] | None = None  # type: ignore[valid-type]
    schedule_type: ScheduleType | None = None
    name: _Line | None = None
    name_prefix: _Line | None = None
    target: Annotated[str, Text(255, pattern=LINE)] | None = None
    """The host that the job calls."""
    labels: Annotated[str, Text(MAX_NAME, pattern=SELECTOR)] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None


class DeadLetterFilter(_Asked):
    """As in a query of GET /dead-letters."""

    job: UUID | None = None
    job_type: _Type | None = None
    reason: Literal[EVERY_REASON] | None = None  # type: ignore[valid-type]
    error_code: Annotated[str, Text(64, pattern=LINE)] | None = None
    """Error code of the last attempt."""
    http_status: Annotated[str, Text(3, pattern="^[1-5][0-9][0-9]$")] | None = None
    """HTTP status of the target's last answer."""
    target: Annotated[str, Text(255, pattern=LINE)] | None = None
    """The host that the job calls."""
    scheduled_for_after: datetime | None = None
    scheduled_for_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None


class UnfinishedFilter(_Asked):
    """As in a query of GET /triggers."""

    state: Literal[tuple(state for state in TriggerState if state in UNFINISHED)] | None = None  # type: ignore[valid-type]
    job: UUID | None = None
    job_type: _Type | None = None
    scheduled_for_after: datetime | None = None
    scheduled_for_before: datetime | None = None


class TriggersFilter(DeadLetterFilter):
    """As in a query of GET /triggers; dead ones unless a state is named."""

    state: TriggerState | None = None


class UnfinishedRunsFilter(_Asked):
    """As in a query of GET /workflow-runs."""

    workflow: UUID | None = None
    state: Literal[RunState.RUNNING] | None = None


class RetriedRunsFilter(_Asked):
    """As in a query of GET /workflow-runs; failed ones unless a state is named."""

    workflow: UUID | None = None
    state: Literal[RunState.FAILED, RunState.CANCELLED] | None = None


class _OnMany(_Asked):
    hints = {"filter": _FILTER}
    dry_run: StrictBool = False
    """Only count; nothing is done."""


class _OnJobs(_OnMany):
    filter: Annotated[JobsFilter, UNREAD]
    """{} means all jobs."""


class _OnTriggers(_OnMany):
    filter: Annotated[TriggersFilter, UNREAD]
    """{} means all dead triggers."""


class OfJobs(_OnJobs):
    verb: Literal["pause", "cancel", "delete"]
    """Action on each job."""


class ResumeJobs(_OnJobs):
    verb: Literal["resume"]
    """Let each job go on from now."""
    per_second: _Pace = None
    """Most jobs per second; without it, as fast as possible."""


class EditJobs(_OnJobs):
    hints = {**_OnJobs.hints, "changes": 'Must be an object such as {"priority": "high"}.'}
    verb: Literal["edit"]
    """Change each job as PATCH /jobs/{id} does."""
    changes: Annotated[ChangesOfMany, UNREAD]
    """A JSON merge patch (RFC 7396) that is applied to each job. It cannot change the name."""
    all_or_nothing: StrictBool = False
    """Check all jobs first, and edit none if one of them has to be refused."""
    dry_run: StrictBool = False
    """Only count the jobs, and show the first differences; nothing is changed."""


class ReplayTriggers(_OnTriggers):
    verb: Literal["replay"]
    """Run each ended trigger again."""
    per_second: _Pace = None
    """Most triggers per second; without it, as fast as possible."""


class CancelTriggers(_OnMany):
    verb: Literal["cancel_triggers"]
    """Cancel each waiting trigger, and ask running ones to stop."""
    filter: Annotated[UnfinishedFilter, UNREAD]
    """{} means all unfinished triggers."""


class OfRuns(_OnMany):
    verb: Literal["pause_runs", "cancel_runs"]
    """pause_runs: start no further tasks of each run until it is resumed. cancel_runs: cancel each run."""
    filter: Annotated[UnfinishedRunsFilter, UNREAD]
    """{} means all runs that have not ended."""


class ResumeRuns(_OnMany):
    verb: Literal["resume_runs"]
    """Resume each paused run: its ready tasks start."""
    filter: Annotated[UnfinishedRunsFilter, UNREAD]
    """{} means all runs that have not ended."""
    per_second: _Pace = None
    """Most runs per second; without it, as fast as possible."""


class RetryRuns(_OnMany):
    verb: Literal["retry_runs"]
    """Run the tasks of each run that did not succeed again, and all tasks downstream of them."""
    filter: Annotated[RetriedRunsFilter, UNREAD]
    """{} means all failed runs."""
    per_second: _Pace = None
    """Most runs per second; without it, as fast as possible."""


class OperationRequest(
    OneOf[
        Annotated[
            OfJobs
            | ResumeJobs
            | EditJobs
            | ReplayTriggers
            | CancelTriggers
            | OfRuns
            | ResumeRuns
            | RetryRuns,
            Field(discriminator="verb"),
        ]
    ]
):
    """Pause, resume, cancel, delete and edit act on jobs, replay and cancel_triggers on triggers, the others on runs of
    workflows."""

    drops_null = True
    hints = {"verb": f"Is required: one of {', '.join(VERBS)}."}


class Refusal(Shown):
    id: UUID
    detail: str


class Difference(Shown):
    id: UUID
    name: str
    changes: dict[str, Column]
    """Changes by field of the job."""


class MatchCount(Shown):
    matching: int
    exact: bool
    """False: there are more rows than a dry run counts (100,000)."""
    looked_at: int = LEFT_OUT
    """For an edit: number of jobs on which the changes were tried, at most 200. The next fields are about these."""
    changed: int = LEFT_OUT
    refused: int = LEFT_OUT
    differences: list[Difference] = LEFT_OUT
    """Differences of the first 10 jobs that would change."""
    refusals: list[Refusal] = LEFT_OUT
    """The first 20 jobs that would be refused, with the reason."""


class OperationShape(Shown):
    id: UUID
    verb: Literal[VERBS]  # type: ignore[valid-type]
    filter: dict[str, str]
    changes: dict[str, Any] | None
    """Changes of an edit; null for other operations."""
    all_or_nothing: bool
    checked: int | None
    """With all_or_nothing: number of jobs that were checked before the first was edited."""
    per_second: Number | None
    status: Literal["running", "paused", "finished", "refused", "cancelled"]
    """refused: nothing was done, because one job would have been refused."""
    done: int
    """Number of jobs, triggers or runs that are done, including those that needed no change."""
    refused: int
    """Number of jobs, triggers or runs that refused."""
    refusals: list[Refusal]
    """The first refused ones, at most 20, with the reason."""
    created_at: datetime
    updated_at: datetime
    """When the operation last made progress."""
    finished_at: datetime | None


class NamedDeadLetters(_Asked):
    ids: Annotated[
        list[Annotated[UUID, Says("Must be the id of a trigger, a UUID.")]],
        Field(min_length=1, max_length=MAX_IDS),
    ]


class MatchingDeadLetters(_Asked):
    filter: Annotated[DeadLetterFilter, UNREAD]
    """{} means all dead letters."""


class _Noted(_Asked):
    hints = {"note": "Is required: a sentence that says why."}
    note: Annotated[str, Line(MAX_NOTE)]
    """Why these dead letters need no further action."""


class NamedDismissal(NamedDeadLetters, _Noted):
    pass


class MatchingDismissal(MatchingDeadLetters, _Noted):
    pass


def _either(document: Any, *, beside: tuple[str, ...] = ()) -> str:
    """Which of the two it is; a request with an unknown field, or with both or neither, is refused here."""
    if not isinstance(document, dict):
        return "ids"
    if strange := unknown(document, known=("ids", "filter", *beside)):
        raise InvalidInput(strange)
    ways = document.keys() & {"ids", "filter"}
    if len(ways) != 1:
        raise InvalidInput({"ids": 'Give either ids or filter; "filter": {} means all of them.'})
    return str(ways.pop())


class Replay(
    OneOf[
        Annotated[
            Annotated[NamedDeadLetters, Tag("ids")] | Annotated[MatchingDeadLetters, Tag("filter")],
            Discriminator(_either),
        ]
    ]
):
    """The dead letters that are named, or all that match."""

    drops_null = True


def _either_noted(document: Any) -> str:
    return _either(document, beside=("note",))


class Dismissal(
    OneOf[
        Annotated[
            Annotated[NamedDismissal, Tag("ids")] | Annotated[MatchingDismissal, Tag("filter")],
            Discriminator(_either_noted),
        ]
    ]
):
    """The dead letters that are named, or all that match, with a note."""

    drops_null = True


class BackfillRequest(_Asked):
    hints = dict.fromkeys(("start", "end"), "Is required: a time like 2030-01-31T02:00:00Z (RFC 3339).")
    start: Instant
    """Earliest instant whose firing may run."""
    end: Instant
    """Latest instant whose firing may run; not in the future."""
    dry_run: StrictBool = False
    """Only count the firings; nothing is run."""
    beyond_retention: StrictBool = False
    """Allow a start before history begins. Firings that ran then have no record and run again."""

"""Workflows and their runs, as they are read."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, PlainSerializer, PlainValidator

from jobs.core.states import JobStatus, TriggerState
from jobs.core.workflows.graph import MAX_TASKS
from jobs.core.workflows.states import Condition, RunState, TaskRunState
from jobs.models import Origin
from jobs.shapes.base import Shape, Shown
from jobs.shapes.terms import Line
from jobs.shapes.workflow.definition import WorkflowDefinition
from jobs.shapes.workflow.keys import TaskKey
from jobs.shapes.workflow.wait import WaitShape


class WorkflowShape(Shown):
    id: UUID
    name: str
    version: int
    """Goes up by one with every edit."""
    labels: dict[str, str]
    schedule_status: JobStatus | None
    """active or paused; null without a schedule."""
    next_fire_at: datetime | None
    """When the schedule begins the next run; null if no run is ahead or the schedule is not active."""
    created_at: datetime
    updated_at: datetime


#: It may have been written by rules that have changed: it is shown, not checked.
Stored = Annotated[
    WorkflowDefinition,
    PlainValidator(WorkflowDefinition.read_back, json_schema_input_type=WorkflowDefinition),
    PlainSerializer(lambda definition: definition),
]


class OneWorkflow(WorkflowShape):
    """A workflow with its present definition."""

    schedule_status_reason: str | None
    """Why its schedule is paused."""
    schedule_paused_until: datetime | None
    """When the pause ends by itself; null: only when the schedule is resumed."""
    definition: Stored


class VersionShape(Shown):
    number: int
    task_count: int
    created_at: datetime


class OneVersion(VersionShape):
    """A version of a workflow, as it was written."""

    definition: Stored


class RunRequest(Shape):
    """The input that a run of a workflow begins with."""

    drops_null = True
    input: Any = None
    """Input of the run: any JSON, at most as large as a payload."""


class RetryRequest(Shape):
    """The tasks from which a run goes on."""

    tasks: Annotated[list[TaskKey], Field(max_length=MAX_TASKS)] = []
    """Tasks that begin again, with all tasks downstream of them. If empty: the tasks that did not succeed."""
    skip: Annotated[list[TaskKey], Field(max_length=MAX_TASKS)] = []
    """Tasks that failed or were cancelled and count as succeeded from now on. If `tasks` is empty, only tasks that did
    not start because of a failure begin again."""


class SignalRequest(Shape):
    """The payload of a signal: the result of the tasks that wait for it."""

    drops_null = True
    payload: Any = None
    """Payload of the signal: any JSON, at most as large as a result."""


class ApprovalRequest(Shape):
    drops_null = True
    comment: Annotated[str, Line(500, blank=True)] = ""


class RunShape(Shown):
    id: UUID
    workflow_id: UUID
    workflow_name: str
    version: int
    """Version of the workflow that the run executes; a later edit does not change it."""
    state: RunState
    input: Any
    scheduled_for: datetime
    origin: Origin
    """How it began: schedule, catchup (late), backfill, run_now (by a call), or workflow (as a task of another run)."""
    trigger_id: UUID | None
    """ID of the trigger that began the run: a firing of the schedule, or the task of an outer run; null: a call did."""
    outer_run_id: UUID | None
    """ID of the run in which this run is a task."""
    cancel_requested: bool
    cancel_reason: str
    """requested, deadline (it took too long), replaced (by a newer firing), or outer (its outer run is cancelled)."""
    paused_at: datetime | None
    """When the run was paused: no further task has started since."""
    created_at: datetime
    finished_at: datetime | None


class EdgeBefore(Shown):
    """An edge, seen from the task after it."""

    task: str
    on: Condition


class TaskRunShape(Shown):
    """A task in a run. Once it has started it is a trigger: its attempts are at /triggers/{trigger_id}."""

    task: str
    state: TaskRunState
    reason: str
    """Why it was skipped: upstream, halted, or requested. Why a map has no items: no_list, or too_long."""
    after: list[EdgeBefore]
    waits_for: list[str]
    """For a waiting task: the tasks before it that have not ended."""
    ready_at: datetime | None
    finished_at: datetime | None
    trigger_id: UUID | None
    trigger_state: TriggerState | None
    due_at: datetime | None
    """When its trigger is due to start, or to be tried again."""
    started_at: datetime | None
    attempt_count: int | None
    wait: WaitShape | None
    """The wait in the task's definition."""
    item_count: int | None
    """Number of items of a map that has started; they are at /workflow-runs/{id}/tasks/{task}/items."""
    items_left: int | None
    inner_run_id: UUID | None
    """ID of the inner run, once it has begun, if the task is a run of another workflow. The task ends as it does."""
    inner_run_state: RunState | None


class MapItemShape(Shown):
    """An item of a map."""

    item: int
    """Position of the item in the list, from 0."""
    value: Any
    state: TaskRunState
    reason: str
    trigger_id: UUID | None
    inner_run_id: UUID | None
    ready_at: datetime | None
    finished_at: datetime | None


class OneRun(RunShape):
    """A run with its tasks, in the order in which its version names them."""

    tasks: list[TaskRunShape]

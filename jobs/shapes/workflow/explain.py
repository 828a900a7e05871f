"""Why a run of a workflow has not ended, and why a task of it waits."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from jobs.core.states import TriggerState
from jobs.core.workflows.states import RunState, TaskRunState
from jobs.shapes.base import Shown
from jobs.shapes.explain import TriggerExplanation, TriggerGate

#: In the order in which a run, and a task, meet them.
RUN_GATE_NAMES = ("paused", "max_parallel", "tasks")
TASK_GATE_NAMES = ("upstream", "halt", "paused", "max_parallel", "trigger")
_RunGate = Literal[RUN_GATE_NAMES]  # type: ignore[valid-type]
_TaskGate = Literal[TASK_GATE_NAMES]  # type: ignore[valid-type]


class RunGate(TriggerGate):
    gate: _RunGate = Field(validation_alias="name")


class TaskGate(TriggerGate):
    gate: _TaskGate = Field(validation_alias="name")


class HoldingTask(Shown):
    task: str
    state: TaskRunState
    detail: str
    """How it stands: retrying, next attempt at …"""
    trigger_id: UUID | None
    trigger_state: TriggerState | None


class TaskCounts(Shown):
    waiting: int
    ready: int
    started: int
    succeeded: int
    failed: int
    skipped: int
    cancelled: int


class TaskExplanation(Shown):
    task: str
    state: TaskRunState
    reason: str
    """Of a task that has ended."""
    summary: str
    """The answer in a few sentences."""
    blocking: list[_TaskGate]
    """The gates it has not passed, in order."""
    gates: list[TaskGate]
    """In order; none once it has ended."""
    trigger_of: str | None
    """The task of which ``trigger`` is: this one, or of a waiting one the task to look at first."""
    trigger: TriggerExplanation | None
    """What its trigger waits for or how it ended, or the trigger of a task that it waits for."""


class RunExplanationShape(Shown):
    run_id: UUID = Field(validation_alias="id")
    workflow_id: UUID
    workflow_name: str
    version: int
    state: RunState
    at: datetime
    """The moment all of this was true."""
    summary: str
    """The answer in a few sentences."""
    blocking: list[_RunGate]
    """The gates it has not passed, in order."""
    gates: list[RunGate]
    """In order; none once it has ended."""
    counts: TaskCounts
    """Its tasks by state."""
    holding: list[HoldingTask]
    """The tasks that hold it, the first ten: those that have started, else those that are ready."""
    trigger: TriggerExplanation | None
    """Of the started task to look at first, what its trigger waits for; null when none has started."""
    task: TaskExplanation | None
    """Of the task that ?task= names."""

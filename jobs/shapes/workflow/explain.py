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
    """Present state in words, such as: retrying, next attempt at …"""
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
    """Why the task ended; empty before it has ended."""
    summary: str
    """The answer in a few sentences."""
    blocking: list[_TaskGate]
    """The gates that the task has not passed, in order."""
    gates: list[TaskGate]
    """All gates, in order; empty once the task has ended."""
    trigger_of: str | None
    """Key of the task that ``trigger`` belongs to: this task, or, while it waits, the task to look at first."""
    trigger: TriggerExplanation | None
    """Explanation of the trigger of the task ``trigger_of``: why it waits, or how it ended."""


class RunExplanationShape(Shown):
    run_id: UUID = Field(validation_alias="id")
    workflow_id: UUID
    workflow_name: str
    version: int
    state: RunState
    at: datetime
    """When all of this was true."""
    summary: str
    """The answer in a few sentences."""
    blocking: list[_RunGate]
    """The gates that the run has not passed, in order."""
    gates: list[RunGate]
    """All gates, in order; empty once the run has ended."""
    counts: TaskCounts
    """Number of its tasks by state."""
    holding: list[HoldingTask]
    """The first ten tasks that the run waits for: those that have started, or if none has, those that are ready."""
    trigger: TriggerExplanation | None
    """Why the trigger of the started task to look at first has not ended; null when no task has started."""
    task: TaskExplanation | None
    """Explanation of the task that ?task= names."""

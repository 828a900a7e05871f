"""Workflows as they are written."""

from typing import Annotated, Any, Literal

from pydantic import Field

from jobs.core.policies import Delivery, MisfirePolicy, OverlapPolicy
from jobs.core.workflows.graph import MAX_EDGES, MAX_TASKS
from jobs.core.workflows.states import SCHEDULE_TYPE, Condition, When
from jobs.shapes.base import Shape
from jobs.shapes.job import MAX_NAME, CatchupWindow, Labels, MaxCatchup, MaxConcurrent, MisfireGrace
from jobs.shapes.schedule import ScheduleShape
from jobs.shapes.terms import Between, Line, Says, Text

KEY = r"[a-z][a-z0-9_]{0,62}"
TaskKey = Annotated[
    str,
    Field(pattern=f"^{KEY}$"),
    Says("A task's key is a small letter, then up to 62 small letters, digits and underscores."),
    Text(63, pattern=f"^{KEY}$"),
]


class TaskShape(Shape):
    """A task: what a job has that says what is done, and when it may start."""

    drops_null = True
    hints = {"schedule": "A task has no schedule: it starts when the tasks before it have ended."}
    job_type: str
    """One of GET /job-types."""
    payload: dict[str, Any] = {}
    priority: str | None = None
    timeout_seconds: float | None = None
    retry_policy: dict[str, Any] | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    when: When = When.ALL_SUCCESS
    """How many of its incoming edges must be met, and what an edge without a condition asks for."""

    def as_job(self, name: str) -> dict[str, Any]:
        """The definition of its job, to be read as any other's: a task's fields have the bounds of a job's."""
        own = {"job_type", "payload", "priority", "timeout_seconds", "retry_policy", "delivery"}
        return {
            "name": name,
            "schedule": {"type": "immediate"},
            "overlap_policy": "allow",
            "max_concurrent": 1_000_000,
            **self.model_dump(mode="json", include=own, exclude_none=True),
        }


class EdgeShape(Shape):
    """``after`` waits for ``before``."""

    drops_null = True
    before: TaskKey
    after: TaskKey
    on: Condition | None = None
    """By default the one that suits the ``when`` of ``after``."""


def _of_any_key(schema: dict[str, Any]) -> None:
    """OpenAPI 3.0 has no words for the names that properties may have."""
    named = schema.pop("patternProperties", None) or {"": schema["additionalProperties"]}
    schema.pop("propertyNames", None)
    [schema["additionalProperties"]] = named.values()
    schema["maxProperties"] = MAX_TASKS


class WorkflowDefinition(Shape):
    """A workflow as it is written."""

    drops_null = True
    hints = {"": "A workflow is a JSON object."}
    name: Annotated[str, Line(MAX_NAME)]
    tasks: Annotated[dict[TaskKey, TaskShape], Field(json_schema_extra=_of_any_key)]
    """By their keys: a small letter, then up to 62 small letters, digits and underscores."""
    edges: Annotated[list[EdgeShape], Field(json_schema_extra={"maxItems": MAX_EDGES})] = []
    on_failure: Literal["halt", "continue"] = "halt"
    """halt: once a task failed, only tasks that handle failures start, and those after them."""
    max_parallel: Annotated[int, Between(1, MAX_TASKS)] | None = None
    """How many tasks of one run may be started at once; any number by default."""
    deadline_seconds: Annotated[float, Between(1, 366 * 86_400)] | None = None
    """A run that has not ended so long after it began is cancelled."""
    labels: Labels = {}
    """As a job's."""
    schedule: ScheduleShape | None = None
    """When a run begins by itself, as a job's; never by default."""
    input: Any = None
    """What a run begins with that the schedule begins: any JSON, as large as a payload may be."""
    overlap_policy: OverlapPolicy | None = None
    """Of scheduled runs, as a job's: skip by default. All runs of the workflow count."""
    max_concurrent: MaxConcurrent | None = None
    """How many runs may go on at once where overlap_policy is allow; 1 by default."""
    misfire_policy: MisfirePolicy | None = None
    misfire_grace_seconds: MisfireGrace | None = None
    catchup_window_seconds: CatchupWindow | None = None
    max_catchup: MaxCatchup | None = None

    def schedule_as_job(self, name: str) -> dict[str, Any]:
        """The definition of the job that is its schedule, which it has: what is left out is as a job's."""
        own = {
            *("schedule", "overlap_policy", "max_concurrent", "misfire_policy"),
            *("misfire_grace_seconds", "catchup_window_seconds", "max_catchup"),
        }
        return {
            "name": name,
            "job_type": SCHEDULE_TYPE,
            "payload": {"input": self.input},
            **self.model_dump(mode="json", include=own, exclude_none=True),
        }

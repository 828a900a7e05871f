"""Workflows as they are written."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from jobs.core.errors import InvalidInput
from jobs.core.policies import Delivery, MisfirePolicy, OverlapPolicy
from jobs.core.workflows.graph import MAX_EDGES, MAX_TASKS
from jobs.core.workflows.states import RUN_TYPE, SCHEDULE_TYPE, WAIT_TYPE, Condition, When
from jobs.shapes.base import Shape
from jobs.shapes.job import MAX_NAME, CatchupWindow, Labels, MaxCatchup, MaxConcurrent, MisfireGrace
from jobs.shapes.notify import RunNotify
from jobs.shapes.schedule import ScheduleShape
from jobs.shapes.terms import Between, Line
from jobs.shapes.workflow.keys import TakenValue, TaskKey
from jobs.shapes.workflow.wait import WaitShape

#: How many items of one map may be started at once.
MAX_MAP_PARALLEL = 1_000
_OF_JOBS = ("payload", "timeout_seconds", "retry_policy", "delivery")
#: Of a task that is an inner run. All that is tried again is the beginning of that run, which calls no target that a
#: retry could harm: soon, and for an hour. How the run ends is the task's end, and none of this.
_BEGINS_AGAIN = {
    "max_attempts": 20,
    "backoff": "exponential",
    "initial_delay_seconds": 1,
    "factor": 2,
    "max_delay_seconds": 300,
}


class MapShape(Shape):
    """The task once for each item of a list."""

    drops_null = True
    over: TakenValue
    """A list that a task upstream came to, or from the input: of up to 10,000 items."""
    max_parallel: Annotated[int, Between(1, MAX_MAP_PARALLEL)] = MAX_MAP_PARALLEL
    """How many of its items may be started at once."""


class InnerRunShape(Shape):
    """An inner run, of another workflow."""

    drops_null = True
    name: Annotated[str, Line(MAX_NAME)]
    """Of the workflow, which there must be. The run is of its version when the task starts."""
    input: Any = None
    """What the run begins with; `{"$from": …}` stands for all of it, or for values within."""


class TaskShape(Shape):
    """A task: what a job has that says what is done, or a wait, or a workflow that runs; and when it may start."""

    drops_null = True
    hints = {"schedule": "A task has no schedule: it starts when the tasks before it have ended."}
    job_type: str | None = None
    """One of GET /job-types."""
    wait: WaitShape | None = None
    """In place of a job type: what the task waits for."""
    workflow: InnerRunShape | None = None
    """In place of a job type: the workflow of which the task is a run. The task ends as the run does."""
    map: MapShape | None = None
    """The payload takes `map.item` and `map.index` (from 0). The task's result is the list of its items' results."""
    payload: dict[str, Any] = {}
    priority: str | None = None
    timeout_seconds: float | None = None
    retry_policy: dict[str, Any] | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    when: When = When.ALL_SUCCESS
    """How many of its incoming edges must be met, and what an edge without a condition asks for."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [name for name in ("job_type", "wait", "workflow") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise InvalidInput({"job_type": "A task has one of job_type, wait and workflow."})
        if self.job_type is None:
            # What is at its default may have been filled in by whoever shows a definition.
            fields, unfit = type(self).model_fields, ("map", *_OF_JOBS) if self.wait else _OF_JOBS
            if strange := [name for name in unfit if getattr(self, name) != fields[name].default]:
                raise InvalidInput(dict.fromkeys(strange, f"Does not belong to a {kinds[0]}; leave it out."))
        return self

    def taking(self) -> dict[str, object]:
        """All that may take values from elsewhere, by its field."""
        found: dict[str, object] = {"payload": self.payload}
        if self.map is not None:
            found["map.over"] = self.map.over
        if self.wait is not None:
            found["wait.until"] = getattr(self.wait.root, "until", None)
        if self.workflow is not None:
            found = {"workflow.input": self.workflow.input} | found
        return found

    def as_job(self, key: str, name: str) -> dict[str, Any]:
        """The definition of its job, to be read as any other's: a task's fields have the bounds of a job's."""
        own = {"job_type", "priority", *_OF_JOBS}
        job = self.model_dump(mode="json", include=own, exclude_none=True)
        if self.wait is not None:
            job |= {"job_type": WAIT_TYPE, "payload": self.wait.as_payload(key)}
        if self.workflow is not None:
            payload = {"workflow": self.workflow.name, "input": self.workflow.input}
            job |= {"job_type": RUN_TYPE, "payload": payload, "retry_policy": _BEGINS_AGAIN}
        return {
            "name": name,
            "schedule": {"type": "immediate"},
            "overlap_policy": "allow",
            "max_concurrent": 1_000_000,
            **job,
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
    schema |= {"minProperties": 1, "maxProperties": MAX_TASKS}


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
    notify: RunNotify | None = None
    """Who is told of how its runs end; as the tenant says by default."""
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

    @property
    def stored_notify(self) -> dict[str, Any] | None:
        return self.notify and self.notify.stored()

    @classmethod
    def read_back(cls, stored: dict[str, Any]) -> dict[str, Any]:
        """A definition as it was written, with the options that have come since.

        One that would be refused by now, such as for a time zone that is gone, is as it was.
        """
        try:
            return cls.kept(stored).model_dump(mode="json")
        except (InvalidInput, ValidationError):
            return stored

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

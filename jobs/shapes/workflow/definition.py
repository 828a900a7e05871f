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
#: The retry policy of a task that is an inner run. Only the beginning of that run is tried again, soon and for an hour:
#: it calls no target that a retry could harm. The end of the run is the task's end, and no retry follows it.
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
    """A list from the result of a task upstream or from the input, of up to 10,000 items."""
    max_parallel: Annotated[int, Between(1, MAX_MAP_PARALLEL)] = MAX_MAP_PARALLEL
    """How many items of the map may be started at once."""


class InnerRunShape(Shape):
    """An inner run, of another workflow."""

    drops_null = True
    name: Annotated[str, Line(MAX_NAME)]
    """Name of the workflow, which must exist. The run executes the version that is present when the task starts."""
    input: Any = None
    """Input of the run; `{"$from": …}` may stand for all of it, or for values in it."""


class TaskShape(Shape):
    """A task: the fields of a job that say what is done, or a wait, or a workflow to run; and when it may start."""

    drops_null = True
    hints = {"schedule": "A task has no schedule: it starts when the tasks before it have ended."}
    job_type: str | None = None
    """One of GET /job-types."""
    wait: WaitShape | None = None
    """Wait of the task, instead of a job type: it ends at an instant, or by a signal or an approval."""
    workflow: InnerRunShape | None = None
    """Workflow of which the task is a run, instead of a job type. The task ends as the run does."""
    map: MapShape | None = None
    """Run the task once for each item of a list. The payload may take `map.item` and `map.index` (from 0). The task's
    result is the list of its items' results."""
    payload: dict[str, Any] = {}
    priority: str | None = None
    timeout_seconds: float | None = None
    retry_policy: dict[str, Any] | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    when: When = When.ALL_SUCCESS
    """How many incoming edges must be met, and the condition of an edge that names none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [name for name in ("job_type", "wait", "workflow") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise InvalidInput({"job_type": "A task has one of job_type, wait and workflow."})
        if self.job_type is None:
            # A field at its default may have been filled in where the definition was shown.
            fields, unfit = type(self).model_fields, ("map", *_OF_JOBS) if self.wait else _OF_JOBS
            if strange := [name for name in unfit if getattr(self, name) != fields[name].default]:
                raise InvalidInput(dict.fromkeys(strange, f"Does not belong to a {kinds[0]}; leave it out."))
        return self

    def taking(self) -> dict[str, object]:
        """All parts that may take values from elsewhere, by field."""
        found: dict[str, object] = {"payload": self.payload}
        if self.map is not None:
            found["map.over"] = self.map.over
        if self.wait is not None:
            found["wait.until"] = getattr(self.wait.root, "until", None)
        if self.workflow is not None:
            found = {"workflow.input": self.workflow.input} | found
        return found

    def as_job(self, key: str, name: str) -> dict[str, Any]:
        """The definition of its job, which is read as any other's: a task's fields have the bounds of a job's."""
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
    """Condition of the edge; by default the one that suits the ``when`` of ``after``."""


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
    """Tasks by key: a small letter, then up to 62 small letters, digits and underscores."""
    edges: Annotated[list[EdgeShape], Field(json_schema_extra={"maxItems": MAX_EDGES})] = []
    on_failure: Literal["halt", "continue"] = "halt"
    """halt: once a task failed, only tasks that handle failures start, and those after them."""
    max_parallel: Annotated[int, Between(1, MAX_TASKS)] | None = None
    """How many tasks of one run may be started at once; any number by default."""
    deadline_seconds: Annotated[float, Between(1, 366 * 86_400)] | None = None
    """Time limit of a run: a run that has not ended this long after it began is cancelled."""
    labels: Labels = {}
    """Labels of the workflow, with the same rules as those of a job."""
    notify: RunNotify | None = None
    """Notices about the end of its runs; the tenant's `notify` by default."""
    schedule: ScheduleShape | None = None
    """Schedule by which runs begin, with the fields of a job's schedule; none by default."""
    input: Any = None
    """Input of the runs that the schedule begins: any JSON, at most as large as a payload."""
    overlap_policy: OverlapPolicy | None = None
    """Overlap policy of scheduled runs, as for jobs; skip by default. All runs of the workflow count."""
    max_concurrent: MaxConcurrent | None = None
    """How many runs may go on at once if overlap_policy is allow; 1 by default."""
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

        A definition that would be refused by now, such as for a time zone that is gone, is returned as it was.
        """
        try:
            return cls.kept(stored).model_dump(mode="json")
        except (InvalidInput, ValidationError):
            return stored

    def schedule_as_job(self, name: str) -> dict[str, Any]:
        """The definition of the job that is its schedule. It must have one. Fields left out are as a job's."""
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

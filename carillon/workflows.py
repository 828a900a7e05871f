"""Workflows as Python: a program that describes a graph and prints the YAML that ``carillon workflows apply`` takes.

It sends nothing, and the command line runs no such program. The server validates the printed definition. This module
refuses only things that could not be printed: an unknown option, a value that is not JSON, a task of another workflow.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from carillon.files.yaml_text import dump

#: The conditions that a task offers to the tasks after it: how it ended.
ON_SUCCESS, ON_FAILURE, ON_FINISHED = "on_success", "on_failure", "on_finished"


class TaskOptions(TypedDict, total=False):
    """A task's fields, as the API has them. ``over`` of ``map``, ``until`` of ``wait``, ``input`` of ``workflow`` and a
    value within ``payload`` may be a ``Reference``.
    """

    job_type: str
    wait: Mapping[str, Any]
    workflow: Mapping[str, Any]
    map: Mapping[str, Any]
    payload: Mapping[str, Any]
    priority: str
    timeout_seconds: float
    retry_policy: Mapping[str, Any]
    delivery: str
    when: str


class WorkflowOptions(TypedDict, total=False):
    """A workflow's fields beside its tasks and edges, as the API has them."""

    on_failure: str
    max_parallel: int
    deadline_seconds: float
    labels: Mapping[str, str]
    notify: Mapping[str, Any]
    schedule: Mapping[str, Any]
    input: Any
    overlap_policy: str
    max_concurrent: int
    misfire_policy: str
    misfire_grace_seconds: float
    catchup_window_seconds: float
    max_catchup: int


class Reference:
    """A value that comes from elsewhere. ``extract.result["rows"][0]`` prints ``{"$from": "extract.result.rows.0"}``.

    It is known when the task starts. Asking it for its text, its truth or its members raises ``TypeError``; otherwise
    the program would go on with something else.
    """

    #: Without this, iterating would count positions up for ever.
    __iter__ = None

    def __init__(self, workflow: "Workflow", path: str) -> None:
        self.workflow, self.path = workflow, path

    def __getitem__(self, step: str | int) -> "Reference":
        """The value at a name, or at a position from 0. Raises ``TypeError`` and ``ValueError`` for other steps."""
        if isinstance(step, bool) or not isinstance(step, str | int):
            raise TypeError(f"{self.path}: a step is a name or a position, not {step!r}.")
        if step == "" or (isinstance(step, str) and "." in step) or (isinstance(step, int) and step < 0):
            raise ValueError(
                f"{self.path}: a step is a name without a dot, or a position from 0, not {step!r}."
            )
        return Reference(self.workflow, f"{self.path}.{step}")

    def __str__(self) -> str:
        raise TypeError(
            f"{self.path} is known when the task starts: it can be used as a value, but not inside a text."
        )

    def __bool__(self) -> bool:
        raise TypeError(f"{self.path} is known when the task starts: a condition here cannot use it.")

    def __repr__(self) -> str:
        return f"<Reference {self.path}>"


class Ends:
    """The ends of one or more tasks, each with its condition: one side of ``>>``."""

    def __init__(self, *ends: tuple["Task", str | None]) -> None:
        self._ends = ends

    def __rshift__(self, after: "Ends | Iterable[Ends]") -> "Ends":
        """Let each task on the right wait for each on the left. Returns the right side, for the next ``>>``."""
        following = _ends_of(after)
        if following is None:
            return NotImplemented
        for task, condition in self._ends:
            for other, _ in following._ends:
                task.workflow.edge(task, other, on=condition)
        return following

    def __rrshift__(self, before: "Iterable[Ends]") -> "Ends":
        preceding = _ends_of(before)
        return NotImplemented if preceding is None else preceding >> self


def _ends_of(given: object) -> Ends | None:
    """One side of ``>>``; None: it is neither tasks nor a list of them.

    Raises ``ValueError`` for an empty list: the tasks after it would wait for nothing.
    """
    if isinstance(given, Ends):
        return given
    if not isinstance(given, list | tuple) or not all(isinstance(one, Ends) for one in given):
        return None
    if not given:
        raise ValueError("An empty list joins no tasks: leave it out.")
    return Ends(*(end for one in given for end in one._ends))


class Task(Ends):
    """A task of a workflow, made by ``Workflow.task``. An edge has the condition that suits the ``when`` of the task
    after it, unless the edge begins at ``on_success``, ``on_failure`` or ``on_finished``.
    """

    def __init__(self, workflow: "Workflow", key: str, options: TaskOptions) -> None:
        super().__init__((self, None))
        self.workflow, self.key, self.options = workflow, key, options

    @property
    def on_success(self) -> Ends:
        return Ends((self, ON_SUCCESS))

    @property
    def on_failure(self) -> Ends:
        return Ends((self, ON_FAILURE))

    @property
    def on_finished(self) -> Ends:
        return Ends((self, ON_FINISHED))

    @property
    def result(self) -> Reference:
        """Its result, for payloads of tasks after it."""
        return Reference(self.workflow, f"{self.key}.result")

    def __repr__(self) -> str:
        return f"<Task {self.key} of {self.workflow.name}>"


class Workflow:
    """A workflow by its name. Raises ``TypeError`` that names an unknown option."""

    def __init__(self, name: str, **options: Unpack[WorkflowOptions]) -> None:
        _check_options(options, WorkflowOptions, of=f"Workflow {name}")
        self.name, self.options = name, options
        self._tasks: dict[str, Task] = {}
        self._edges: list[dict[str, str]] = []

    def task(self, key: str, **options: Unpack[TaskOptions]) -> Task:
        """Add a task. Raises ``TypeError`` that names an unknown option, ``ValueError`` for a key that is taken."""
        _check_options(options, TaskOptions, of=f"Task {key}")
        if key in self._tasks:
            raise ValueError(f"Workflow {self.name} already has a task {key}.")
        self._tasks[key] = Task(self, key, options)
        return self._tasks[key]

    def edge(self, before: Task, after: Task, *, on: str | None = None) -> None:
        """Let ``after`` wait for ``before``, as ``>>`` does. Raises ``ValueError`` for a task of another workflow."""
        for task in (before, after):
            if task.workflow is not self:
                raise ValueError(
                    f"Task {task.key} belongs to workflow {task.workflow.name}, not to {self.name}."
                )
        self._edges.append({"before": before.key, "after": after.key} | ({} if on is None else {"on": on}))

    @property
    def input(self) -> Reference:
        """The input of the run."""
        return Reference(self, "workflow.input")

    @property
    def item(self) -> Reference:
        """The item of a map, for its payload."""
        return Reference(self, "map.item")

    @property
    def index(self) -> Reference:
        """The place of a map's item in the list, from 0, for its payload."""
        return Reference(self, "map.index")

    @property
    def scheduled_for(self) -> Reference:
        """The instant of the run."""
        return Reference(self, "run.scheduled_for")

    def to_dict(self) -> dict[str, Any]:
        """The definition, as ``POST /workflows`` takes it.

        Raises ``TypeError`` with the place of a value that is not JSON, ``ValueError`` for one of another workflow.
        """
        return {
            "name": self.name,
            "tasks": {key: self._json(task.options, f"tasks.{key}") for key, task in self._tasks.items()},
            "edges": list(self._edges),
            **self._json(self.options, ""),
        }

    def to_yaml(self) -> str:
        """The definition, as ``carillon workflows apply -f -`` takes it. Raises the errors of ``to_dict``."""
        return dump(self.to_dict())

    def _json(self, value: Any, place: str) -> Any:
        """The value with its references written out, of the types that JSON has."""
        match value:
            case Reference():
                if value.workflow is not self:
                    raise ValueError(f"{place}: {value.path} belongs to another workflow.")
                return {"$from": value.path}
            case Mapping():
                if strange := [name for name in value if not isinstance(name, str)]:
                    raise TypeError(f"{place}: a name must be a text, not {strange[0]!r}.")
                return {
                    name: self._json(inner, f"{place}.{name}".lstrip(".")) for name, inner in value.items()
                }
            case list() | tuple():
                return [self._json(inner, f"{place}.{nth}") for nth, inner in enumerate(value)]
        try:
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{place}: {value!r} is not JSON. {error}.") from None


def _check_options(options: Mapping[str, Any], known: Any, *, of: str) -> None:
    if strange := [name for name in options if name not in known.__annotations__]:
        raise TypeError(f"{of} has no option {strange[0]}; there are {', '.join(known.__annotations__)}.")

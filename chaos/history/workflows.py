"""The lines of a history that tell of workflows and their runs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

#: How the idempotency key of a task begins. The run's id, a colon and the task's key follow, and for an item of a map
#: one more colon and its place in the list.
OF_RUN = "workflow-run:"


@dataclass(frozen=True, kw_only=True)
class WorkflowMade:
    """A workflow the API acknowledged.

    ``tasks`` by key, each with fields of ``JobMade`` (``target``, ``seconds``, ``failures``, ``max_attempts``,
    ``delivery``), ``when``, and ``brings``: the tasks whose results its request carries. A task that waits has
    ``wait``, as in the definition. ``lists``: the number of items in the answer. A map has ``over``: the task whose
    answer lists its items, or ``input``; ``parallel``; and ``only``: the items that are treated as ``target`` says.
    A task that is an inner run has ``inner``: the workflow, and ``gives``: the tasks whose results are in its input.
    ``brings`` and ``gives`` name a task; or with points a task within one that is an inner run (``mid.deep.work``), or
    a value of the run's own input (``input.begin``).
    ``edges``: before, after, on. ``schedule`` and ``overlap_policy``: of a workflow whose runs begin by themselves.
    ``deadline_seconds``: a run is cancelled this long after it began.
    """

    at: float
    workflow_id: str
    tenant: str
    name: str
    tasks: dict[str, dict[str, Any]]
    edges: list[list[str]]
    on_failure: str = "halt"
    max_parallel: int | None = None
    schedule: dict[str, Any] = field(default_factory=dict)
    overlap_policy: str = ""
    deadline_seconds: float | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RunAsked:
    """A run was asked for under an ``Idempotency-Key`` of its own, until it was acknowledged.

    ``number`` is a part of its input, and no other run has the same. ``input``: the rest of it.
    """

    workflow_id: str
    number: int
    requested_at: float
    acknowledged_at: float | None = None
    run_id: str = ""
    scheduled_for: datetime | None = None
    input: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Steered:
    """A call about a run: ``verb`` is pause, resume, cancel, retry, signal, approve or refuse.

    ``task``: the one that waits for a signal or an approval. ``tasks`` and ``skip`` are a retry's.
    """

    run_id: str
    verb: str
    requested_at: float
    acknowledged_at: float | None = None
    task: str = ""
    tasks: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Brought:
    """The values that the request of a task carried: under ``number`` the run's input, and under each task its result.

    ``workflow``: the name of its workflow. An item of a map also has ``item`` and ``nth``, its place.
    """

    delivery: int
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunSeen:
    """A run as the API shows it: before each retry (``reading`` 0), and twice at the end as triggers are.

    ``tasks``: by key the ``state``, ``reason``, ``trigger_id``, ``attempts`` and ``finished_at`` (seconds since 1970,
    or null). A map that has items also has ``items``, the same of each in the order of the list. A task that is an
    inner run has ``inner_run_id``, the run that it began last. ``cancel_reason``: why the run was cancelled. An inner
    run has ``outer_run_id``, the ``trigger_id`` of the task that it is, and its whole ``input``.
    """

    at: float
    reading: int
    run_id: str
    workflow_id: str
    number: int
    state: str
    scheduled_for: datetime
    finished_at: float | None
    tasks: dict[str, dict[str, Any]]
    created_at: float | None = None
    cancel_reason: str = ""
    outer_run_id: str = ""
    trigger_id: str = ""
    input: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class InnerRun:
    """Which start of a task's trigger began an inner run, from 0, by the database: the API does not show it."""

    run_id: str
    trigger_id: str
    task_start: int

"""Workflows to make: as the API takes them, and as the history records them.

A task's request carries the number of its run and the results of tasks before it; its result is the receiver's answer.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from chaos.history import WorkflowMade
from chaos.load.definitions import TIMEOUT_SECONDS, retry_policy

#: In ``Task.over``: the list is the input's. In a name in ``Task.brings``: the value is the input's.
OF_INPUT = "input"
#: How many items that list has, by the number of the run; None: the input has no list.
SIZES = (5, 0, 3, None)
#: How far ahead the instant is that a run waits for.
UNTIL_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task to make; the fields are those of ``history.WorkflowMade.tasks``.

    ``by_number``: its receiver counts requests by the number of the run. So if a task of an inner run fails so many
    times, the count goes on in the inner run that is begun in its place.
    """

    target: str = "ok"
    seconds: float = 0.0
    failures: int = 0
    max_attempts: int = 5
    delivery: str = "at_least_once"
    when: str = "all_success"
    brings: tuple[str, ...] = ()
    lists: int = 0
    over: str = ""
    parallel: int = 1_000
    only: tuple[int, ...] = ()
    wait: dict[str, Any] = field(default_factory=dict)
    inner: str = ""
    gives: tuple[str, ...] = ()
    by_number: bool = False
    job_type: str = "chaos.task"

    def definition(self, url: str, plan: "WorkflowPlan") -> dict[str, Any]:
        """The task within the body of ``POST /workflows``."""
        if self.wait:
            return {"wait": self.wait, "when": self.when}
        if self.inner:
            given = {"number": _from("workflow.input.number"), **plan.values(self.gives)}
            return {"workflow": {"name": self.inner, "input": given}, "when": self.when}
        asked = {"target": self.target, "seconds": self.seconds, "failures": self.failures}
        asked |= {"lists": self.lists} if self.lists else {}
        asked |= {"only": ",".join(map(str, self.only))} if self.only else {}
        asked |= {"by": "number"} if self.by_number else {}
        body: dict[str, Any] = {"number": _from("workflow.input.number"), "workflow": plan.name}
        if self.over:
            body |= {"item": _from("map.item"), "nth": _from("map.index")}
        return {
            "job_type": self.job_type,
            "payload": {
                "url": f"{url}?{urlencode(asked)}",
                "body": body | plan.values(self.brings),
            },
            "timeout_seconds": TIMEOUT_SECONDS,
            "retry_policy": retry_policy(self.max_attempts),
            "delivery": self.delivery,
            "when": self.when,
            **self._map(),
        }

    def _map(self) -> dict[str, Any]:
        if not self.over:
            return {}
        over = "workflow.input.items" if self.over == OF_INPUT else f"{self.over}.result.items"
        return {"map": {"over": _from(over), "max_parallel": self.parallel}}

    def result(self, key: str) -> str:
        """The part of its result that a task after it takes."""
        if self.over:
            return f"{key}.result"
        return f"{key}.result.{self._says()}"

    def _says(self) -> str:
        return {"signal": "sent", "approval": "approved"}.get(self.wait.get("type", ""), "delivery")


@dataclass(frozen=True, kw_only=True)
class Deed:
    """A call by which the load steers each ``every``-th run: ``verb`` as in ``history.Steered``.

    A pause, a resume and a cancel come so many seconds ``after`` the deed before; a signal, an approval and a refusal
    once ``task`` waits for them; a retry once the run has ended, of ``tasks``, without ``skip``.
    """

    verb: str
    task: str = ""
    after: tuple[float, float] = (0.0, 0.0)
    tasks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    every: int = 1


#: Before, after, on.
Edge = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class WorkflowPlan:
    """A workflow to make, and the deeds for its runs. One with a ``schedule`` is begun by that alone. One that
    ``is_inner`` is begun by tasks of others, which refer to it by name: these are made after it.
    """

    name: str
    tasks: dict[str, Task]
    edges: list[Edge]
    on_failure: str = "halt"
    max_parallel: int | None = None
    schedule: dict[str, Any] = field(default_factory=dict)
    overlap_policy: str = ""
    deadline_seconds: float | None = None
    is_inner: bool = False
    deeds: tuple[Deed, ...] = ()

    def definition(self, *, receiver_url: str) -> dict[str, Any]:
        """The body of ``POST /workflows``."""
        bounds = {"max_parallel": self.max_parallel, "deadline_seconds": self.deadline_seconds}
        timed = {
            "schedule": self.schedule,
            "overlap_policy": self.overlap_policy,
            "misfire_policy": "fire_all",
            "input": {"number": 0},
        }
        return {
            "name": self.name,
            "tasks": {
                key: task.definition(f"{receiver_url}/{self.name}.{key}", self)
                for key, task in self.tasks.items()
            },
            "edges": [{"before": before, "after": after, "on": on} for before, after, on in self.edges],
            "on_failure": self.on_failure,
            **{name: bound for name, bound in bounds.items() if bound is not None},
            **(timed if self.schedule else {}),
        }

    def values(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The values that a payload takes, each by its name in ``history.WorkflowMade``."""
        return {name: _from(self._place(name)) for name in names}

    def _place(self, name: str) -> str:
        key, _, within = name.partition(".")
        if key == OF_INPUT:
            return f"workflow.input.{within}"
        return f"{key}.result.{within}.delivery" if within else self.tasks[key].result(key)

    def input(self, number: int, *, now: float) -> dict[str, Any]:
        """The input of a run, beside its number; ``now`` is in seconds since 1970."""
        given: dict[str, Any] = {}
        size = SIZES[number % len(SIZES)]
        if size is not None and any(task.over == OF_INPUT for task in self.tasks.values()):
            given["items"] = [f"{number}.{nth}" for nth in range(size)]
        if any("until" in task.wait for task in self.tasks.values()):
            given["until"] = datetime.fromtimestamp(now + UNTIL_SECONDS, UTC).isoformat()
        return given

    def made(self, answer: dict[str, Any], *, tenant: str, at: float) -> WorkflowMade:
        """The line of the history, from the API's answer."""
        created_at = answer.get("created_at")
        return WorkflowMade(
            at=at,
            workflow_id=answer["id"],
            tenant=tenant,
            name=self.name,
            tasks={key: _told(task) for key, task in self.tasks.items()},
            edges=[list(edge) for edge in self.edges],
            on_failure=self.on_failure,
            max_parallel=self.max_parallel,
            schedule=self.schedule,
            overlap_policy=self.overlap_policy,
            deadline_seconds=self.deadline_seconds,
            created_at=datetime.fromisoformat(created_at) if created_at else None,
        )


def _from(place: str) -> dict[str, str]:
    return {"$from": place}


def _told(task: Task) -> dict[str, Any]:
    """The fields of a task as JSON gives them back."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(task).items()}

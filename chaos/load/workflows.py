"""Workflows of every shape, and runs of them that begin at a steady rate, each under an ``Idempotency-Key`` of its own.

A task's request carries the number of its run and the results of tasks before it; its result is the receiver's answer.
"""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import count, cycle, pairwise
from typing import Any
from urllib.parse import urlencode

from chaos.history import Journal, RunAsked, RunSeen, WorkflowMade
from chaos.load.caller import AGAIN_SECONDS, Caller
from chaos.load.definitions import TIMEOUT_SECONDS, retry_policy

#: Of one fan-out; each result is taken by what comes after.
FAN = 20
MAX_PARALLEL = 6


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task to make; the fields are those of ``history.WorkflowMade.tasks``."""

    target: str = "ok"
    seconds: float = 0.0
    failures: int = 0
    max_attempts: int = 5
    delivery: str = "at_least_once"
    when: str = "all_success"
    brings: tuple[str, ...] = ()
    job_type: str = "chaos.task"

    def definition(self, url: str) -> dict[str, Any]:
        """It within the body of ``POST /workflows``."""
        asked = {"target": self.target, "seconds": self.seconds, "failures": self.failures}
        taken = {key: {"$from": f"{key}.result.delivery"} for key in self.brings}
        return {
            "job_type": self.job_type,
            "payload": {
                "url": f"{url}?{urlencode(asked)}",
                "body": {"number": {"$from": "workflow.input.number"}, **taken},
            },
            "timeout_seconds": TIMEOUT_SECONDS,
            "retry_policy": retry_policy(self.max_attempts),
            "delivery": self.delivery,
            "when": self.when,
        }


#: Before, after, on.
Edge = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class WorkflowPlan:
    """A workflow to make."""

    name: str
    tasks: dict[str, Task]
    edges: list[Edge]
    on_failure: str = "halt"
    max_parallel: int | None = None

    def definition(self, *, receiver_url: str) -> dict[str, Any]:
        """The body of ``POST /workflows``."""
        bound = {} if self.max_parallel is None else {"max_parallel": self.max_parallel}
        return {
            "name": self.name,
            "tasks": {
                key: task.definition(f"{receiver_url}/{self.name}.{key}") for key, task in self.tasks.items()
            },
            "edges": [{"before": before, "after": after, "on": on} for before, after, on in self.edges],
            "on_failure": self.on_failure,
            **bound,
        }

    def made(self, answer: dict[str, Any], *, tenant: str, at: float) -> WorkflowMade:
        """The line of the history, from the API's answer."""
        return WorkflowMade(
            at=at,
            workflow_id=answer["id"],
            tenant=tenant,
            name=self.name,
            tasks={key: asdict(task) | {"brings": list(task.brings)} for key, task in self.tasks.items()},
            edges=[list(edge) for edge in self.edges],
            on_failure=self.on_failure,
            max_parallel=self.max_parallel,
        )


def workflow_plans() -> list[WorkflowPlan]:
    """One of each shape."""
    return [_diamond("diamond"), _diamond("broken", fails=True), _fan("fan"), _chain(), _mixed(), _narrow()]


def _diamond(name: str, *, fails: bool = False) -> WorkflowPlan:
    """Two ways that meet again, and one that is gone only if the right one fails; it halts."""
    right = Task(target="failing", max_attempts=2) if fails else Task(target="flaky", failures=1)
    return WorkflowPlan(
        name=name,
        tasks={
            "begin": Task(),
            "left": Task(brings=("begin",), seconds=0.2),
            "right": right,
            "meet": Task(brings=() if fails else ("left", "right")),
            "mend": Task(brings=("begin",)),
            "after_mend": Task(job_type="webhook", brings=("mend",)),
            "close": Task(when="all_finished"),
        },
        edges=[
            ("begin", "left", "on_success"),
            ("begin", "right", "on_success"),
            ("left", "meet", "on_success"),
            ("right", "meet", "on_success"),
            ("right", "mend", "on_failure"),
            ("mend", "after_mend", "on_success"),
            ("meet", "close", "on_finished"),
            ("after_mend", "close", "on_finished"),
        ],
    )


def _fan(name: str, **bounds: Any) -> WorkflowPlan:
    """Out to many, and in again: the last task takes the results of all."""
    keys = [f"part{n}" for n in range(FAN)]
    return WorkflowPlan(
        name=name,
        tasks={
            "split": Task(),
            **{key: Task(brings=("split",)) for key in keys},
            "gather": Task(brings=tuple(keys)),
        },
        edges=[
            *(("split", key, "on_success") for key in keys),
            *((key, "gather", "on_success") for key in keys),
        ],
        **bounds,
    )


def _narrow() -> WorkflowPlan:
    return _fan("narrow", max_parallel=MAX_PARALLEL)


def _chain() -> WorkflowPlan:
    """One after the other, with an effect made once and a retry."""
    tasks = {
        "step1": Task(),
        "step2": Task(target="flaky", failures=1, brings=("step1",)),
        "step3": Task(target="once", delivery="exactly_once", job_type="chaos.once"),
        "step4": Task(brings=("step2",)),
        "step5": Task(job_type="webhook", brings=("step4",)),
    }
    return WorkflowPlan(
        name="chain", tasks=tasks, edges=[(one, other, "on_success") for one, other in pairwise(tasks)]
    )


def _mixed() -> WorkflowPlan:
    """Failures that do not stop the rest: each way in which a task may need those before it."""
    return WorkflowPlan(
        name="mixed",
        tasks={
            "good": Task(),
            "refused": Task(target="refusing", job_type="webhook"),
            "late_failure": Task(target="failing", max_attempts=3),
            "any_good": Task(when="any_success"),
            "any_bad": Task(when="any_failure"),
            "all_good": Task(),
            "all_done": Task(when="all_finished", brings=("good",)),
        },
        edges=[
            ("good", "any_good", "on_success"),
            ("late_failure", "any_good", "on_success"),
            ("good", "any_bad", "on_failure"),
            ("late_failure", "any_bad", "on_failure"),
            ("good", "all_good", "on_success"),
            ("refused", "all_good", "on_success"),
            ("any_good", "all_done", "on_finished"),
            ("all_good", "all_done", "on_finished"),
            ("late_failure", "all_done", "on_finished"),
        ],
        on_failure="continue",
    )


@dataclass(kw_only=True)
class Runs:
    """Makes workflows, begins runs of them and reads these at the end, with the keys of a caller's tenants."""

    caller: Caller
    journal: Journal
    made: list[WorkflowMade] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self, plan: WorkflowPlan, *, tenant: str) -> WorkflowMade:
        """Create a workflow; raises what a call raises."""
        definition = plan.definition(receiver_url=self.caller.receiver_url)
        answer = self.caller.call(tenant, "POST", "/workflows", definition)
        workflow = plan.made(answer, tenant=tenant, at=time.time())
        self.journal.note(workflow)
        self.made.append(workflow)
        return workflow

    def begin(self, workflow: WorkflowMade, *, over: threading.Event) -> None:
        """Begin a run; ask again under the same key until that is acknowledged or ``over``."""
        number, requested_at, answer = next(self._numbers), time.time(), None
        path, body = f"/workflows/{workflow.workflow_id}/runs", {"input": {"number": number}}
        while answer is None:
            try:
                answer = self.caller.call(workflow.tenant, "POST", path, body, key=f"chaos-run-{number}")
            except OSError:  # unreachable, too slow, or the first call is at work yet: it may have begun
                if over.wait(AGAIN_SECONDS):
                    break
        self.journal.note(
            RunAsked(
                workflow_id=workflow.workflow_id,
                number=number,
                requested_at=requested_at,
                acknowledged_at=None if answer is None else time.time(),
                run_id=answer["id"] if answer else "",
                scheduled_for=datetime.fromisoformat(answer["scheduled_for"]) if answer else None,
            )
        )

    @contextmanager
    def busy(self, rng: random.Random, *, every_seconds: float) -> Iterator[None]:
        """Begin runs of all workflows in turn until the block ends, which fails if a call was refused."""
        over = threading.Event()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="runs") as beside:
            calls = beside.submit(self._go_on, rng, every_seconds, over)
            try:
                yield
            finally:
                over.set()
        calls.result()

    def _go_on(self, rng: random.Random, every_seconds: float, over: threading.Event) -> None:
        for workflow in cycle(self.made):
            if over.wait(every_seconds * rng.uniform(0.5, 1.5)):
                return
            if not self.caller.silent.is_set():
                self.begin(workflow, over=over)

    def read(self, *, reading: int) -> None:
        """Put down every run of every workflow, as the API shows it."""
        for workflow in self.made:
            path: str | None = f"/workflow-runs?workflow={workflow.workflow_id}&page_size=200"
            while path:
                page = self.caller.call(workflow.tenant, "GET", path)
                for row in page["results"]:
                    run = self.caller.call(workflow.tenant, "GET", f"/workflow-runs/{row['id']}")
                    self.journal.note(_seen(run, reading))
                path = page["next"] and page["next"].split("/api/v1", 1)[1]


def _seen(run: dict[str, Any], reading: int) -> RunSeen:
    return RunSeen(
        at=time.time(),
        reading=reading,
        run_id=run["id"],
        workflow_id=run["workflow_id"],
        number=run["input"]["number"],
        state=run["state"],
        scheduled_for=datetime.fromisoformat(run["scheduled_for"]),
        finished_at=_moment(run["finished_at"]),
        tasks={
            task["task"]: {
                "state": task["state"],
                "reason": task["reason"],
                "trigger_id": task["trigger_id"] or "",
                "finished_at": _moment(task["finished_at"]),
            }
            for task in run["tasks"]
        },
    )


def _moment(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None

"""Explain a run of a workflow, or one task of it: a constant number of statements, however many tasks it has."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.actions.workflows.runs import find_run
from jobs.core.errors import InvalidInput, NotFound
from jobs.core.workflows.states import RunState, TaskRunState
from jobs.explain.gate import Gate
from jobs.explain.gates import Available
from jobs.explain.trigger import Explanation, explain_trigger
from jobs.explain.workflows import standing as rules
from jobs.explain.workflows.standing import Standing
from jobs.shapes.workflow.explain import RunExplanationShape
from jobs.store import workflows as store
from tenants.clock import database_now
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class Explained:
    """A run or a task: its gates, the trigger that says the most about it, and the task of that trigger."""

    gates: list[Gate]
    end: str
    of: str | None
    trigger: Explanation | None

    @property
    def blocking(self) -> list[str]:
        return [gate.name for gate in self.gates if not gate.passed]

    def summary(self, own: str | None = None) -> str:
        """The answer in a few sentences. ``own``: the task that is explained."""
        words = " ".join(gate.detail for gate in self.gates if not gate.passed) or self.end
        if self.trigger is None:
            return words
        return self.trigger.summary if self.of == own else f"{words} {self.of}: {self.trigger.summary}"


@dataclass(frozen=True, slots=True)
class RunExplanation:
    """A run as it stood at one moment, and the task that was asked for."""

    standing: Standing
    at: datetime
    whole: Explained
    task: Any = None
    of_task: Explained | None = None

    def representation(self) -> dict[str, Any]:
        """The explanation as the API shows it, JSON types only."""
        run, tasks = self.standing.run, self.standing.tasks.values()
        listed = rules.holding(self.standing) if run.state == RunState.RUNNING else []
        return RunExplanationShape.of(
            run,
            workflow_name=run.workflow.name,
            version=run.version.number,
            at=self.at,
            summary=self.whole.summary(),
            blocking=self.whole.blocking,
            gates=self.whole.gates,
            counts={state: sum(task.state == state for task in tasks) for state in TaskRunState},
            holding=[self._holding(task) for task in listed[: rules.MAX_LISTED]],
            trigger=self.whole.trigger and self.whole.trigger.representation(),
            task=self.of_task and self._of_task(self.of_task),
        )

    def _holding(self, task: Any) -> dict[str, Any]:
        now = {} if rules.has_trigger(task) else {"trigger_id": None, "trigger_state": None}
        return {**task._asdict(), **now, "detail": rules.told(self.standing, task)}

    def _of_task(self, explained: Explained) -> dict[str, Any]:
        return {
            **self.task._asdict(),
            "summary": explained.summary(own=self.task.task),
            "blocking": explained.blocking,
            "gates": explained.gates,
            "trigger_of": explained.of,
            "trigger": explained.trigger and explained.trigger.representation(),
        }


def explain_run(
    *, tenant: Tenant, run_id: UUID | str, task: str | None = None, available: Available | None = None
) -> RunExplanation:
    """Explain a run, and its task of that key. Three statements, and those of ``explain_trigger`` at most twice.

    Raises ``NotFound``, ``InvalidInput`` (``task``).
    """
    run = find_run(tenant=tenant, run_id=run_id)
    standing = Standing(run, {row.task: row for row in store.task_runs(run.id)})
    if task is not None and task not in standing.tasks:
        raise InvalidInput(
            {"task": f"No task of version {run.version.number} of this workflow has this name."}
        )
    explain = _Triggers(tenant, available)
    is_over = run.state != RunState.RUNNING
    first = None if is_over else standing.first_to_look_at(rules.holding(standing))
    whole = Explained(
        rules.run_gates(standing),
        rules.run_end(standing)
        if is_over
        else "All its tasks have ended, and it ends with the last of them.",
        *explain(first),
    )
    if task is None:
        return RunExplanation(standing, database_now(), whole)
    asked = standing.tasks[task]
    return RunExplanation(standing, database_now(), whole, asked, _of_task(standing, asked, explain))


def _of_task(standing: Standing, task: Any, explain: "_Triggers") -> Explained:
    if task.finished_at is not None:
        of, own = explain(task)
        end = rules.task_end(standing, task)
        # A task may have ended in another way since its trigger did: a retry leaves triggers of earlier starts.
        is_of_now = own is not None and own.fact.finished_at == task.finished_at
        return Explained([], end, of, own) if is_of_now else Explained([], end, None, None)
    waits = task.state == TaskRunState.WAITING
    holder = standing.first_to_look_at(standing.holders(task) if waits else [task])
    gates = rules.task_gates(standing, task)
    return Explained(gates, "It starts with the next step of its run.", *explain(holder))


class _Triggers:
    """Explanations of the triggers of tasks; each is asked for once."""

    def __init__(self, tenant: Tenant, available: Available | None) -> None:
        self._tenant, self._available = tenant, available
        self._known: dict[UUID, Explanation | None] = {}

    def __call__(self, task: Any | None) -> tuple[str | None, Explanation | None]:
        """The task's key and the explanation of its trigger; nothing where it has none."""
        if task is None or task.trigger_id is None:
            return None, None
        if task.trigger_id not in self._known:
            self._known[task.trigger_id] = self._read(task.trigger_id)
        found = self._known[task.trigger_id]
        return (task.task, found) if found else (None, None)

    def _read(self, trigger_id: UUID) -> Explanation | None:
        try:
            return explain_trigger(tenant=self._tenant, trigger_id=trigger_id, available=self._available)
        except NotFound:  # retention dropped it since the tasks were read
            return None

"""Runs of the load's workflows as a sound system would leave them, and the means to break them in one place."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from chaos.history import OF_RUN, Brought, Effect, Record, RunAsked, RunSeen, Started, WorkflowMade
from chaos.load.workflows import FAN, workflow_plans
from tests.chaos.histories import CLOSED, START, T0, a_job, executed

PLANS = {plan.name: plan for plan in workflow_plans()}
#: When a run begins, in seconds after the start.
BEGINS = 10.0
#: By task, each execution: seconds after the run began, and the answer.
Story = Mapping[str, list[tuple[float, int]]]
STORIES: dict[str, Story] = {
    "diamond": {
        "begin": [(0.05, 200)],
        "left": [(0.1, 200)],
        "right": [(0.1, 503), (1.2, 200)],
        "meet": [(1.3, 200)],
        "close": [(1.4, 200)],
    },
    "broken": {
        "begin": [(0.05, 200)],
        "left": [(0.1, 200)],
        "right": [(0.1, 500), (1.2, 500)],
        "mend": [(1.3, 200)],
        "after_mend": [(1.4, 200)],
        "close": [(1.5, 200)],
    },
    "fan": {
        "split": [(0.05, 200)],
        **{f"part{n}": [(0.1 + 0.02 * n, 200)] for n in range(FAN)},
        "gather": [(0.6, 200)],
    },
    "chain": {
        "step1": [(0.05, 200)],
        "step2": [(0.1, 503), (1.2, 200)],
        "step3": [(1.3, 200)],
        "step4": [(1.4, 200)],
        "step5": [(1.5, 200)],
    },
    "mixed": {
        "good": [(0.05, 200)],
        "refused": [(0.05, 400)],
        "late_failure": [(0.05, 500), (1.1, 500), (2.2, 500)],
        "any_good": [(0.1, 200)],
        "any_bad": [(2.3, 200)],
        "all_done": [(2.3, 200)],
    },
}
STORIES["narrow"] = STORIES["fan"] | {
    # Never more than six at once: each takes a hundredth of a second.
    "gather": [(1.0, 200)],
}


def a_workflow(name: str) -> WorkflowMade:
    return PLANS[name].made({"id": f"{name}-id"}, tenant="acme", at=T0)


def a_run_of(
    name: str, *, number: int = 1, begins: float = BEGINS, story: Story | None = None
) -> list[Record]:
    """One run of a workflow of the load, with what the API said of it and with both readings of the ledger."""
    workflow, story = a_workflow(name), STORIES[name] if story is None else story
    run_id, at = f"run{number}", START + timedelta(seconds=begins)
    asked = RunAsked(
        workflow_id=workflow.workflow_id,
        number=number,
        requested_at=at.timestamp() - 0.01,
        acknowledged_at=at.timestamp() + 0.01,
        run_id=run_id,
        scheduled_for=at,
    )
    lines: dict[str, list[Record]] = {
        task: executions(workflow, task, run_id, at, answers) for task, answers in story.items()
    }
    records = [workflow, asked, *(line for each in lines.values() for line in each)]
    results = {task: each[-2].delivery for task, each in lines.items()}
    for task, each in lines.items():
        if workflow.tasks[task]["target"] != "once":
            carried = {"number": number} | {one: results[one] for one in workflow.tasks[task]["brings"]}
            records += [Brought(delivery=s.delivery, values=carried) for s in each if isinstance(s, Started)]
        else:
            records.append(Effect(job_id=f"{name}/{task}", scheduled_for=at, count=1))
    seen = _seen(workflow, run_id, number, at, story)
    return [*records, replace(seen, reading=1), seen]


def executions(
    workflow: WorkflowMade, task: str, run_id: str, at: Any, answers: list[tuple[float, int]], **facts: Any
) -> list[Record]:
    """The lines of a task's executions, so many seconds after the run began."""
    job = a_job(f"{workflow.name}/{task}", seconds=workflow.tasks[task]["seconds"])
    found: list[Record] = []
    for n, (late, status) in enumerate(answers, start=1):
        started, ended = executed(
            job, at, **{"late": late, "status": status, "attempt": n, "fence": n} | facts
        )
        found += [replace(started, key=f"{OF_RUN}{run_id}:{task}"), ended]
    return found


def _seen(workflow: WorkflowMade, run_id: str, number: int, at: Any, story: Story) -> RunSeen:
    tasks = {}
    for task in workflow.tasks:
        moment, status = story[task][-1] if task in story else (0.0, 0)
        tasks[task] = {
            "state": {200: "succeeded", 0: "skipped"}.get(status, "failed"),
            "reason": "" if status else "upstream",
            "trigger_id": f"{workflow.name}/{task}@{at.isoformat()}" if status else "",
            "finished_at": at.timestamp() + moment + workflow.tasks[task]["seconds"] + 0.02,
        }
    last = max(task["finished_at"] for task in tasks.values())
    state = "failed" if any(task["state"] == "failed" for task in tasks.values()) else "succeeded"
    return RunSeen(
        at=T0 + CLOSED, reading=2, run_id=run_id, workflow_id=workflow.workflow_id, number=number, state=state,
        scheduled_for=at, finished_at=last, tasks=tasks,
    )  # fmt: skip


def of_task(task: str) -> Callable[[Record], bool]:
    """Whether a line is the start of an execution of that task."""
    return lambda line: isinstance(line, Started) and line.key.endswith(f":{task}")


def seen(records: list[Record], *, reading: int | None = None, **changes: Any) -> list[Record]:
    """The history with something else in the ledger; a change of a task is one of its entry."""
    return [
        _changed(line, changes) if isinstance(line, RunSeen) and reading in (None, line.reading) else line
        for line in records
    ]


def _changed(line: RunSeen, changes: Mapping[str, Any]) -> RunSeen:
    tasks = {task: each | changes.get(task, {}) for task, each in line.tasks.items()}
    return replace(
        line, tasks=tasks, **{key: value for key, value in changes.items() if key not in line.tasks}
    )

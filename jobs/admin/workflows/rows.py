"""The tasks of a definition or of a run as rows of a table: the graph is drawn from them (``console/graph.js``).

Each row names the tasks before it, so the table says all that the graph shows, to keyboards, screen readers and where
there is no JavaScript. A graph of more than ``MAX_DRAWN`` tasks or ``MAX_EDGES`` edges is not drawn: a browser would
take seconds to lay it out, and no reader could follow it.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.admin.shared.cells import NOTHING, duration_cell, instant_text, state_label
from jobs.core.policies import Priority
from jobs.core.workflows.graph import Edge
from jobs.core.workflows.states import When
from jobs.models import WorkflowVersion
from jobs.shapes.workflow.definition import TaskShape, WorkflowDefinition

MAX_DRAWN, MAX_EDGES = 150, 400
#: Names of tasks in one cell.
MAX_NAMED = 12
#: The sign of each state, which stands beside its colour.
ICONS = {
    "waiting": "hourglass_empty",
    "ready": "schedule",
    "started": "inbox",
    "pending": "inbox",
    "queued": "inbox",
    "running": "play_arrow",
    "retrying": "replay",
    "succeeded": "check",
    "failed": "close",
    "skipped": "skip_next",
    "cancelled": "block",
}


def is_drawn(tasks: int, edges: int) -> bool:
    return 1 < tasks <= MAX_DRAWN and edges <= MAX_EDGES


def of_version(version: WorkflowVersion) -> dict[str, Any]:
    """The tasks in the order in which they were written, which JSON in Postgres does not keep."""
    # The schedule and the like in a definition of an older release may be refused by now.
    graph = {name: version.definition[name] for name in ("name", "tasks", "edges")}
    read = WorkflowDefinition.model_validate(graph)
    order = dict(version.tasks.values_list("key", "number"))
    whens = {key: task.when for key, task in read.tasks.items()}
    before: dict[str, list[tuple[str, str]]] = {key: [] for key in read.tasks}
    for edge in read.edges:
        meaning = Edge(edge.before, edge.after, edge.on).meaning(whens)
        before[edge.after].append((edge.before, meaning.value))
    drawn = is_drawn(len(before), len(read.edges))
    return {
        "drawn": drawn,
        "rows": [
            {
                "key": key,
                "after": json.dumps(before[key]) if drawn else "",
                "named": named(before[key], usual=task.when),
                "when": task.when.replace("_", " ") if len(before[key]) > 1 else "",
                "job_type": what(task),
                "priority": task.priority or Priority.MEDIUM.label,
            }
            for key, task in sorted(read.tasks.items(), key=lambda item: order.get(item[0], len(order)))
        ],
    }


def what(task: TaskShape) -> str:
    """The job type of a task, the workflow that it runs, or the wait that it is."""
    if task.wait is not None:
        return f"wait: {task.wait.root.type}"
    done = f"run of {task.workflow.name}" if task.workflow is not None else str(task.job_type)
    return f"{done}, for each item" if task.map is not None else done


def named(before: Sequence[tuple[str, str]], *, usual: When | None = None) -> str:
    """``extract, check (on failure)``: a condition is told where it is not the ``usual`` one."""
    silent = usual.usual_condition.value if usual else "on_success"
    shown = [
        key if condition == silent else f"{key} ({condition.replace('_', ' ')})"
        for key, condition in before[:MAX_NAMED]
    ]
    return names(shown, len(before))


def names(shown: Sequence[str], count: int) -> str:
    more = count - min(len(shown), MAX_NAMED)
    return ", ".join(shown[:MAX_NAMED]) + (f" and {more:,} more" if more else "")


class Timeline:
    """From when the first task of a run could start to now, or to the end of the last."""

    def __init__(self, tasks: Sequence[Mapping[str, Any]], *, begun: datetime, until: datetime) -> None:
        known = [task["ready_at"] for task in tasks if task["ready_at"]]
        self.begin = min(known, default=begun)
        self.end = max(until, self.begin + timedelta(milliseconds=1))

    def bar(self, since: datetime, until: datetime, kind: str) -> dict[str, str]:
        """``left`` and ``width`` in percent. A task that took no time to speak of can still be seen."""
        whole = self.end - self.begin
        left = max(0.0, min(1.0, (since - self.begin) / whole))
        width = max(0.0, min(1.0 - left, (until - since) / whole))
        return {"kind": kind, "left": f"{left:.3%}", "width": f"{width:.3%}"}

    @property
    def marks(self) -> list[str]:
        """The times from the begin to a quarter of it, to the half and so on."""
        whole = self.end - self.begin
        return ["0", *(duration_cell(whole * quarter / 4) for quarter in (1, 2, 3, 4))]


def of_run(
    tasks: Sequence[Mapping[str, Any]], *, run_id: UUID, begun: datetime, until: datetime, only: str = ""
) -> dict[str, Any]:
    """The tasks of a run (``runs.tasks_of``) with their bars, in the order in which they could start.

    ``only``: only the tasks in this state; empty: all.
    ``until``: when the run ended, or now.
    """
    timeline = Timeline(tasks, begun=begun, until=until)
    counts = Counter(shown_state(task) for task in tasks)
    drawn = not only and is_drawn(len(tasks), sum(len(task["after"]) for task in tasks))
    ordered = sorted(tasks, key=lambda task: (task["ready_at"] is None, task["ready_at"] or begun))
    panel = reverse("workflow_task", args=[run_id, "task"]).removesuffix("task/")
    return {
        "drawn": drawn,
        "marks": timeline.marks,
        "counts": [
            {"state": state, "label": state_cell(state), "count": counts[state], "chosen": state == only}
            for state in ICONS
            if counts[state]
        ],
        "rows": [
            _of_task(task, timeline, until=until, drawn=drawn) | {"panel": f"{panel}{task['task']}/"}
            for task in ordered
            if only in ("", shown_state(task))
        ],
    }


def shown_state(task: Mapping[str, Any]) -> str:
    """A task's state; for a started task its trigger's state, which says more."""
    state = str(task["state"])
    if state == "started" and task["trigger_state"] == "succeeded":
        return "running"  # as a run of another workflow
    return str(task["trigger_state"] or state) if state == "started" else state


def started_of(task: Mapping[str, Any]) -> datetime | None:
    """When a task last started. Once the run is retried, a trigger has its old start until it starts again."""
    started, ready = task["started_at"], task["ready_at"]
    return started if started and ready and started >= ready else None


@cache
def state_cell(state: str) -> SafeString:
    return state_label(state)


def _of_task(task: Mapping[str, Any], timeline: Timeline, *, until: datetime, drawn: bool) -> dict[str, Any]:
    state, ready, started = shown_state(task), task["ready_at"], started_of(task)
    end = task["finished_at"] or until
    bars = []
    if ready and state != "skipped":
        bars.append(timeline.bar(ready, started or end, "waits"))
    if started:
        bars.append(timeline.bar(started, end, state))
    waited = duration_cell(max((started or end) - ready, timedelta(0))) if bars else NOTHING
    took = duration_cell(max(end - started, timedelta(0))) if started else NOTHING
    before = [(edge["task"], edge["on"]) for edge in task["after"]]
    return {
        "key": task["task"],
        "after": json.dumps(before) if drawn else "",
        "state": state,
        "icon": ICONS.get(state, "help"),
        "label": state_cell(state),
        "why": why(task),
        "bars": bars,
        "waited": waited,
        "took": took,
        "detail": took if started else state,
        "attempts": task["attempt_count"] or "",
        "trigger_id": task["trigger_id"],
    }


def why(task: Mapping[str, Any]) -> str:
    """Why a task is in its state, or what it waits for."""
    if task["waits_for"]:
        return f"waits for {names(task['waits_for'], len(task['waits_for']))}"
    if task["trigger_state"] == "retrying" and task["state"] == "started":
        return f"tried again at {instant_text(task['due_at'])}"
    if task["item_count"] is not None:
        left = task["items_left"] or 0
        return f"{task['item_count'] - left:,} of {task['item_count']:,} items ended"
    if task["wait"] and task["state"] == "started":
        return f"waits: {task['wait']['type']}, until {instant_text(task['due_at'])}"
    if task["state"] == "ready":
        return "ready: the run is paused, or max_parallel of its tasks have started"
    return str(task["reason"]).replace("_", " ")

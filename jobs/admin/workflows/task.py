"""One task of a run: why it is in its state, what it waits for, how its attempts went, and the link to its trigger.

It stands on the run's page where the address names a task. With JavaScript it is fetched, and fetched again while the
task goes on.
"""

from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse
from django.utils.http import urlencode

from jobs.actions.workflows import runs as actions
from jobs.admin.firings.trigger import attempts_table
from jobs.admin.shared.cells import instant_cell
from jobs.admin.shared.pages import ConsolePage
from jobs.admin.shared.veil import may_see_payloads
from jobs.admin.workflows import rows
from jobs.core.workflows.states import RunState, TaskRunState
from jobs.explain.workflows import explain_run
from jobs.models import Trigger, WorkflowRun
from tenants.console.reach import held_to_reach

#: Items of a map that are shown: those that did not succeed, from the first on.
MAX_ITEMS = 50


def run_within_reach(user: Any, run_id: UUID) -> WorkflowRun:
    """The run with its workflow, and with its version without the definition. Raises ``Http404``."""
    found = WorkflowRun.objects.filter(id=run_id).select_related("tenant", "workflow", "version")
    run = held_to_reach(user, found.defer("input", "version__definition")).first()
    if run is None:
        raise Http404("There is no such run.")
    return run


def told(user: Any, run: WorkflowRun, key: str) -> dict[str, Any] | None:
    """The context of ``templates/admin/jobs/workflowrun/task.html``; None: no task has this key."""
    tasks = {task["task"]: task for task in actions.tasks_of(run)}
    if key not in tasks:
        return None
    task = tasks[key]
    why = explain_run(tenant=run.tenant, run_id=run.id, task=key).of_task
    return (
        {
            "run_id": run.id,
            "key": key,
            "inner_run_id": task["inner_run_id"],
            "state": rows.state_cell(rows.shown_state(task)),
            "why": why.summary(own=key) if why else "",
            "waits_for": task["waits_for"],
            "before": rows.named([(edge["task"], edge["on"]) for edge in task["after"]]),
            "next": _next(tasks.values(), key),
            "ready": instant_cell(task["ready_at"]),
            "started": instant_cell(rows.started_of(task)),
            "due": instant_cell(task["due_at"]) if rows.shown_state(task) == "retrying" else "",
            "finished": instant_cell(task["finished_at"]),
            "goes_on": task["finished_at"] is None and run.state == RunState.RUNNING,
            "retry": _retry(user, run, key),
            "asks": _asks(user, run, task),
            "payloads_shown": may_see_payloads(user),
        }
        | _items(run, task)
        | _attempts(user, task["trigger_id"])
    )


def _next(tasks: Any, key: str) -> str:
    after = [task["task"] for task in tasks if any(edge["task"] == key for edge in task["after"])]
    return rows.names(after, len(after))


def _retry(user: Any, run: WorkflowRun, key: str) -> str:
    """The address that retries the run from this task, for users who may; else empty."""
    if (
        run.state == RunState.RUNNING
        or run.workflow.deleted_at
        or not user.has_perm("jobs.change_workflowrun")
    ):
        return ""
    return f"{reverse('admin:jobs_workflowrun_retry', args=[run.id])}?tasks={key}"


def _asks(user: Any, run: WorkflowRun, task: dict[str, Any]) -> dict[str, Any] | None:
    """The approval or signal that a task waits for now, with the pages on which users who may give it; else None."""
    wait = task["wait"] or {}
    if task["state"] != "started":
        return None
    match wait.get("type"):
        case "approval":
            asks, query = {"message": wait["message"]}, urlencode({"task": task["task"]})
            pages = {"Approve": "approve", "Refuse": "refuse"}
        case "signal":
            signal = wait["name"] or task["task"]
            asks, query, pages = {"signal": signal}, urlencode({"name": signal}), {"Send it": "signal"}
        case _:
            return None
    may = user.has_perm("jobs.change_workflowrun")
    urls = {
        label: f"{reverse(f'admin:jobs_workflowrun_{page}', args=[run.id])}?{query}"
        for label, page in pages.items()
        if may
    }
    return {**asks, "answers": list(urls.items())}


def _items(run: WorkflowRun, task: dict[str, Any]) -> dict[str, Any]:
    """The items of a map that did not succeed."""
    if task["item_count"] is None:
        return {}
    left = actions.items_of(run, task["task"]).exclude(state=TaskRunState.SUCCEEDED).order_by("item")
    items = [
        {
            "number": item.item,
            "state": rows.state_cell(item.state),
            "reason": item.reason.replace("_", " "),
            "trigger_id": item.trigger_id,  # type: ignore[attr-defined]
            "inner_run_id": item.inner_run_id,  # type: ignore[attr-defined]
        }
        for item in left.defer("value")[: MAX_ITEMS + 1]
    ]
    return {"items": items[:MAX_ITEMS], "more_items": len(items) > MAX_ITEMS, "items_told": rows.why(task)}


def _attempts(user: Any, trigger_id: UUID | None) -> dict[str, Any]:
    """The attempts; none for users who may not see triggers, and for a task that has not started."""
    trigger = Trigger.objects.filter(id=trigger_id).first() if trigger_id else None
    if trigger is None or not user.has_perm("jobs.view_trigger"):
        return {}
    return {"trigger_id": trigger.id, "attempts": attempts_table(trigger)}


class TaskPanel(ConsolePage):
    title = "Task"
    permission = "jobs.view_workflowrun"
    template_name = "admin/jobs/workflowrun/task.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        run = run_within_reach(self.request.user, kwargs["run_id"])
        task = told(self.request.user, run, kwargs["task"])
        if task is None:
            raise Http404("No task of this run has this name.")
        return super().get_context_data(told=task, **kwargs)

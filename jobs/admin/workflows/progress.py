"""How far a run has come: the part of its page that is fetched again while it goes on.

If the run ended, or was paused or resumed meanwhile, the whole page is loaded again: it has other buttons then.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from jobs.actions.workflows import runs as actions
from jobs.admin.shared.cells import duration_cell, moment_cell, state_label
from jobs.admin.shared.pages import ConsolePage
from jobs.admin.workflows import rows
from jobs.admin.workflows.task import run_within_reach
from jobs.core.workflows.states import RunState
from jobs.models import WorkflowRun
from tenants.clock import database_now

#: With up to so many tasks it is fetched every two seconds, with more every ten.
MAX_OFTEN = 200


def standing(run: WorkflowRun) -> str:
    """The state; for a run that goes on, also whether it is asked to pause or to end. It decides the run's buttons."""
    if run.state != RunState.RUNNING:
        return run.state
    return "cancelling" if run.cancel_requested else "paused" if run.paused_at else "running"


def run_label(run: WorkflowRun) -> SafeString:
    found = standing(run)
    reason = {"cancelling": "cancel asked", "paused": "paused"}.get(found, "")
    return state_label(run.state, reason)


def progress(run: WorkflowRun, *, only: str = "") -> dict[str, Any]:
    """The context of ``templates/admin/jobs/workflowrun/progress.html``."""
    now, goes_on = database_now(), run.state == RunState.RUNNING
    tasks, until = actions.tasks_of(run), run.finished_at or now
    only = only if only in rows.ICONS else ""
    asked = urlencode({"seen": standing(run)} | ({"only": only} if only else {}))
    return rows.of_run(tasks, run_id=run.id, begun=run.created_at, until=until, only=only) | {
        "run": run,
        "label": run_label(run),
        "begun": moment_cell(run.created_at, now=now),
        "took": duration_cell(until - run.created_at),
        "task_count": len(tasks),
        "only": only,
        "goes_on": goes_on,
        "every": 2 if len(tasks) <= MAX_OFTEN else 10,
        "url": f"{reverse('workflow_run_progress', args=[run.id])}?{asked}",
        "max_drawn": rows.MAX_DRAWN,
        "max_edges": rows.MAX_EDGES,
    }


class RunProgress(ConsolePage):
    title = "Workflow run"
    permission = "jobs.view_workflowrun"
    template_name = "admin/jobs/workflowrun/progress.html"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        run = run_within_reach(request.user, kwargs["run_id"])
        if request.GET.get("seen", standing(run)) != standing(run):
            return HttpResponse(headers={"HX-Refresh": "true"})
        told = progress(run, only=request.GET.get("only", ""))
        return self.render_to_response(self.get_context_data(progress=told, **kwargs))

"""Runs with a task that is a run of another workflow."""

from typing import Any

from jobs.actions.workflows import runs
from jobs.core.workflows.states import RUN_TYPE
from jobs.models import Trigger, WorkflowRun
from tenants.models import Tenant
from tests import factories
from tests.workflows.playing import begin, claim_due, finish, make_workflow

OUTER = (("a", "inner"), ("inner", "b"), ("inner", "alert", "on_failure"))


def outer(tenant: Tenant, workflow: dict[str, Any], *edges: Any, **options: Any) -> WorkflowRun:
    """A run of a, the inner run, then b or an alert. The task a has ended."""
    run = begin(make_workflow(tenant, *(edges or OUTER), inner={"inner": workflow}, **options))
    finish(claim_due(), lambda _: "succeeded", result={"day": "Monday", "list": [3, 4]})
    return run


def starts() -> list[Trigger]:
    """The triggers that begin inner runs, queued."""
    factories.dispatch(types=[RUN_TYPE])
    return list(Trigger.objects.filter(job_type=RUN_TYPE, state="queued").order_by("id"))


def inner_of(run: WorkflowRun, task: str = "inner") -> WorkflowRun:
    [found] = [each for each in runs.tasks_of(run) if each["task"] == task]
    return WorkflowRun.objects.get(id=found["inner_run_id"])


def make(tenant: Tenant, name: str = "load", **options: Any) -> None:
    make_workflow(tenant, ("x", "y"), name=name, **options)

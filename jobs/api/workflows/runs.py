"""``/workflow-runs``, and how one begins."""

from typing import Any
from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.workflows import runs as actions
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import HISTORY, Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.explain.workflows import explain_run
from jobs.models import TaskRun, WorkflowRun
from jobs.selection.workflows import WorkflowRunFilter
from jobs.shapes.workflow.explain import RunExplanationShape
from jobs.shapes.workflow.keys import KEY
from jobs.shapes.workflow.run import MapItemShape, OneRun, RetryRequest, RunRequest, RunShape


class WorkflowRunsView(Endpoint):
    """The runs of all workflows."""

    of_history = True
    queryset = WorkflowRun.objects.none()
    shows = RunShape
    filterset_class = WorkflowRunFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List runs of workflows, newest first",
        responses={200: Many(RunShape)},
        parameters=[*HISTORY],
        operation_id="workflow_runs_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(actions.runs_of(self.tenant))

    def present(self, row: Any) -> Any:
        return RunShape.of(row, workflow_name=row.workflow.name, version=row.version.number)


class RunWorkflowView(Endpoint):
    @endpoint(
        "Run a workflow now",
        request=RunRequest,
        responses={201: OneRun},
        problems=(404,),
        operation_id="workflows_run",
    )
    def post(self, request: Request, workflow_id: UUID) -> Response:
        wanted = RunRequest.read(self.body())
        run = actions.run_workflow(tenant=self.tenant, workflow_id=workflow_id, run_input=wanted.input)
        headers = {"Location": reverse("workflow-run", args=[run.id])}
        return Response(actions.representation(run), status=201, headers=headers)


class WorkflowRunView(Endpoint):
    @endpoint(
        "Read a run, with its tasks and what each waits for",
        responses={200: OneRun},
        problems=(404,),
        operation_id="workflow_runs_read",
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        return Response(actions.representation(actions.find_run(tenant=self.tenant, run_id=run_id)))


class ExplainRunView(Endpoint):
    query_parameters = ("task",)

    @endpoint(
        "Explain why a run has not ended, which tasks hold it, and why a task of it waits or how it ended",
        responses={200: RunExplanationShape},
        problems=(404,),
        parameters=[
            OpenApiParameter(
                "task",
                {"type": "string", "pattern": f"^{KEY}$"},
                description="Key of a task that is to be explained too.",
            )
        ],
        operation_id="workflow_runs_explain",
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        task = request.query_params.get("task")
        return Response(explain_run(tenant=self.tenant, run_id=run_id, task=task).representation())


class CancelRunView(Endpoint):
    #: It commits twice, and may be repeated as it is.
    keyed = False

    @endpoint(
        "Cancel a run: no further task starts, and running ones are asked to stop; may be repeated",
        responses={200: OneRun},
        problems=(404, 409),
        keyed=False,
        operation_id="workflow_runs_cancel",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        self.refuse_body()
        return Response(actions.representation(actions.cancel_run(tenant=self.tenant, run_id=run_id)))


class PauseRunView(Endpoint):
    @endpoint(
        "Pause a run until it is resumed; tasks that have started go on",
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_pause",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        self.refuse_body()
        return Response(actions.representation(actions.pause_run(tenant=self.tenant, run_id=run_id)))


class ResumeRunView(Endpoint):
    @endpoint(
        "Resume a paused run: its ready tasks start",
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_resume",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        self.refuse_body()
        return Response(actions.representation(actions.resume_run(tenant=self.tenant, run_id=run_id)))


class RetryRunView(Endpoint):
    @endpoint(
        "Continue a run that ended from the tasks that did not succeed, from given tasks, or without failed "
        "ones",
        request=RetryRequest,
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_retry",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        wanted = RetryRequest.read(self.body())
        run = actions.retry_run(tenant=self.tenant, run_id=run_id, tasks=wanted.tasks, skip=wanted.skip)
        return Response(actions.representation(run))


class ItemsPagination(IdCursorPagination):
    orderings = {"item": "item", "-item": "-item"}


class ItemsView(Endpoint):
    of_history = True
    queryset = TaskRun.objects.none()
    shows = MapItemShape
    pagination_class = ItemsPagination

    @endpoint(
        "List the items of a map, in the order of its list",
        responses={200: Many(MapItemShape)},
        problems=(404,),
        parameters=[*HISTORY],
        operation_id="workflow_runs_items",
    )
    def get(self, request: Request, run_id: UUID, task: str) -> Response:
        run = actions.find_run(tenant=self.tenant, run_id=run_id)
        return self.page_of(actions.items_of(run, task))

"""``/workflows``: definitions and their versions."""

from uuid import UUID

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.workflows import definitions as actions
from jobs.actions.workflows.schedules import with_schedules
from jobs.api.calls.preconditions import expected_version
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import ETAG, IF_MATCH, Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.models import Workflow, WorkflowVersion
from jobs.selection.workflows import WorkflowFilter
from jobs.shapes.workflow.comparison import Comparison
from jobs.shapes.workflow.definition import WorkflowDefinition
from jobs.shapes.workflow.run import OneVersion, OneWorkflow, VersionShape, WorkflowShape


def answer(workflow: Workflow, status: int = 200) -> Response:
    """A workflow with its present definition, and its version as the ETag."""
    headers = {"ETag": f'"{workflow.version}"'}
    if status == 201:
        headers["Location"] = reverse("workflow", args=[workflow.id])
    present = actions.find_version(workflow, workflow.version)
    row = with_schedules(Workflow.objects.filter(id=workflow.id)).get()
    shown = OneWorkflow.of(row, definition=present.definition)
    return Response(shown, status=status, headers=headers)


class WorkflowsView(Endpoint):
    takes_much = True
    queryset = Workflow.objects.none()
    shows = WorkflowShape
    filterset_class = WorkflowFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List workflows, newest first", responses={200: Many(WorkflowShape)}, operation_id="workflows_list"
    )
    def get(self, request: Request) -> Response:
        return self.page_of(with_schedules(actions.workflows_of(self.tenant)))

    @endpoint(
        "Create a workflow",
        request=WorkflowDefinition,
        responses={201: OneWorkflow},
        parameters=[ETAG],
        operation_id="workflows_create",
    )
    def post(self, request: Request) -> Response:
        return answer(actions.create_workflow(tenant=self.tenant, definition=self.body()), 201)


class WorkflowView(Endpoint):
    takes_much = True

    @endpoint(
        "Read a workflow",
        responses={200: OneWorkflow},
        problems=(404,),
        parameters=[ETAG],
        operation_id="workflows_read",
    )
    def get(self, request: Request, workflow_id: UUID) -> Response:
        return answer(actions.find_workflow(tenant=self.tenant, workflow_id=workflow_id))

    @endpoint(
        "Replace a workflow's whole definition; makes a new version, and existing runs keep theirs",
        request=WorkflowDefinition,
        responses={200: OneWorkflow},
        problems=(404, 412, 428),
        parameters=[ETAG, IF_MATCH],
        operation_id="workflows_replace",
    )
    def put(self, request: Request, workflow_id: UUID) -> Response:
        version = expected_version(request, tenant=self.tenant)
        return answer(
            actions.edit_workflow(
                tenant=self.tenant,
                workflow_id=workflow_id,
                definition=self.body(),
                expected_version=version,
            )
        )

    @endpoint(
        "Delete a workflow that has no unfinished run; its runs stay until retention",
        responses={204: None},
        problems=(404, 412, 428),
        parameters=[IF_MATCH],
        operation_id="workflows_delete",
    )
    def delete(self, request: Request, workflow_id: UUID) -> Response:
        version = expected_version(request, tenant=self.tenant)
        actions.delete_workflow(tenant=self.tenant, workflow_id=workflow_id, expected_version=version)
        return Response(status=204)


class VersionsView(Endpoint):
    queryset = WorkflowVersion.objects.none()
    shows = VersionShape
    pagination_class = IdCursorPagination

    @endpoint(
        "List a workflow's versions, newest first",
        responses={200: Many(VersionShape)},
        problems=(404,),
        operation_id="workflows_versions",
    )
    def get(self, request: Request, workflow_id: UUID) -> Response:
        workflow = actions.find_workflow(tenant=self.tenant, workflow_id=workflow_id)
        return self.page_of(WorkflowVersion.objects.filter(workflow=workflow).defer("definition"))


class VersionView(Endpoint):
    @endpoint(
        "Read a version of a workflow",
        responses={200: OneVersion},
        problems=(404,),
        operation_id="workflows_version",
    )
    def get(self, request: Request, workflow_id: UUID, number: int) -> Response:
        workflow = actions.find_workflow(tenant=self.tenant, workflow_id=workflow_id)
        return Response(OneVersion.of(actions.find_version(workflow, number)))


class CompareView(Endpoint):
    @endpoint(
        "Show what an edit of a workflow from one version to another would do",
        responses={200: Comparison},
        problems=(404,),
        operation_id="workflows_compare",
    )
    def get(self, request: Request, workflow_id: UUID, number: int, other: int) -> Response:
        return Response(
            actions.compare_versions(tenant=self.tenant, workflow_id=workflow_id, before=number, after=other)
        )


class RestoreView(Endpoint):
    @endpoint(
        "Restore an earlier version of a workflow as its next version",
        responses={200: OneWorkflow},
        problems=(404, 412),
        parameters=[ETAG, IF_MATCH],
        operation_id="workflows_restore",
    )
    def post(self, request: Request, workflow_id: UUID, number: int) -> Response:
        self.refuse_body()
        version = expected_version(request, tenant=self.tenant)
        return answer(
            actions.restore_version(
                tenant=self.tenant, workflow_id=workflow_id, number=number, expected_version=version
            )
        )

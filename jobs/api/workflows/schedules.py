"""``/workflows/{id}``: pause, resume and backfill its schedule."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import backfill as backfills
from jobs.actions.workflows import backfills as actions_of
from jobs.actions.workflows import definitions as actions
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.api.workflows.definitions import answer
from jobs.models import CatchUp
from jobs.shapes.history import BackfillShape, ExtentShape
from jobs.shapes.job import Pause
from jobs.shapes.operations import BackfillRequest
from jobs.shapes.workflow.run import OneWorkflow


class PauseWorkflowView(Endpoint):
    @endpoint(
        "Pause a workflow's schedule until it is resumed; runs that have begun go on",
        request=Pause,
        responses={200: OneWorkflow},
        problems=(404, 409),
        operation_id="workflows_pause",
    )
    def post(self, request: Request, workflow_id: UUID) -> Response:
        wanted = Pause.read(self.body())
        return answer(actions.pause_workflow(tenant=self.tenant, workflow_id=workflow_id, **dict(wanted)))


class ResumeWorkflowView(Endpoint):
    @endpoint(
        "Resume a workflow's schedule from now on",
        responses={200: OneWorkflow},
        problems=(404, 409),
        operation_id="workflows_resume",
    )
    def post(self, request: Request, workflow_id: UUID) -> Response:
        self.refuse_body()
        return answer(actions.resume_workflow(tenant=self.tenant, workflow_id=workflow_id))


class BackfillsView(Endpoint):
    queryset = CatchUp.objects.none()
    pagination_class = IdCursorPagination

    @endpoint(
        "List the backfills of a workflow's schedule with their progress, newest first",
        responses={200: Many(BackfillShape)},
        problems=(404, 409),
        operation_id="workflows_backfills",
    )
    def get(self, request: Request, workflow_id: UUID) -> Response:
        return self.page_of(actions_of.backfills_of(tenant=self.tenant, workflow_id=workflow_id))

    def present(self, row: Any) -> Any:
        return backfills.representation(row)

    @endpoint(
        "Begin a run for each instant of a past stretch that had none; repeating the call changes nothing",
        request=BackfillRequest,
        responses={200: ExtentShape, 202: BackfillShape},
        problems=(404, 409),
        operation_id="workflows_backfill",
    )
    def post(self, request: Request, workflow_id: UUID) -> Response:
        wanted = dict(BackfillRequest.read(self.body()))
        extent, backfill = actions_of.backfill_workflow(tenant=self.tenant, workflow_id=workflow_id, **wanted)
        if backfill is not None:
            return Response(backfills.representation(backfill), status=202)
        return Response(ExtentShape.of({**wanted, "count": extent.count, "existing": extent.existing}))


class BackfillCancelView(Endpoint):
    @endpoint(
        "Cancel a backfill; runs that it has begun go on",
        responses={200: BackfillShape},
        problems=(404, 409),
        operation_id="workflows_backfill_cancel",
    )
    def post(self, request: Request, workflow_id: UUID, backfill_id: UUID) -> Response:
        self.refuse_body()
        backfill = actions_of.cancel_backfill(
            tenant=self.tenant, workflow_id=workflow_id, backfill_id=backfill_id
        )
        return Response(backfills.representation(backfill))

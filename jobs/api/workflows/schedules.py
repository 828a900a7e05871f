"""``/workflows/{id}``: its schedule paused and resumed."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.workflows import definitions as actions
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.api.workflows.definitions import answer
from jobs.shapes.job import Pause
from jobs.shapes.workflow.run import OneWorkflow


class PauseWorkflowView(Endpoint):
    @endpoint(
        "Begin no runs by a workflow's schedule until it is resumed; what runs goes on",
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
        "Let a workflow's schedule go on from now",
        responses={200: OneWorkflow},
        problems=(404, 409),
        operation_id="workflows_resume",
    )
    def post(self, request: Request, workflow_id: UUID) -> Response:
        self.refuse_body()
        return answer(actions.resume_workflow(tenant=self.tenant, workflow_id=workflow_id))

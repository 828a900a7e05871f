"""Signals and approvals, for which tasks of a run wait."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.workflows import answers
from jobs.actions.workflows.runs import representation
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.shapes.workflow.run import ApprovalRequest, OneRun, SignalRequest


class SignalView(Endpoint):
    @endpoint(
        "Send a run the signal that tasks of it wait for",
        request=SignalRequest,
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_signal",
    )
    def post(self, request: Request, run_id: UUID, name: str) -> Response:
        sent = SignalRequest.read(self.body())
        run = answers.signal(tenant=self.tenant, run_id=run_id, name=name, payload=sent.payload)
        return Response(representation(run))


class _DecideView(Endpoint):
    approved: bool

    def decide(self, run_id: UUID, task: str) -> Response:
        sent = ApprovalRequest.read(self.body())
        run = answers.decide(
            tenant=self.tenant, run_id=run_id, task=task, approved=self.approved, comment=sent.comment
        )
        return Response(representation(run))


class ApproveView(_DecideView):
    approved = True

    @endpoint(
        "Approve the request of a task: the task succeeds",
        request=ApprovalRequest,
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_approve",
    )
    def post(self, request: Request, run_id: UUID, task: str) -> Response:
        return self.decide(run_id, task)


class RefuseView(_DecideView):
    approved = False

    @endpoint(
        "Refuse the request of a task: the task is cancelled",
        request=ApprovalRequest,
        responses={200: OneRun},
        problems=(404, 409),
        operation_id="workflow_runs_refuse",
    )
    def post(self, request: Request, run_id: UUID, task: str) -> Response:
        return self.decide(run_id, task)

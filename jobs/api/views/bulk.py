"""``POST /jobs/bulk``: many jobs by one call; ``/operations``: one verb for all objects that match a filter."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.urls import reverse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import definition
from jobs.actions.bulk import edits
from jobs.actions.bulk import operations as actions
from jobs.actions.bulk.create import Outcome, create_jobs, drafts
from jobs.api.pagination import IdCursorPagination
from jobs.api.problems import problem_of, shorten
from jobs.api.schema import Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.instants import instant_text
from jobs.models import Operation
from jobs.selection.walks import count, first, read_filter
from jobs.shapes.operations import (
    Bulk,
    BulkAnswer,
    EditJobs,
    MatchCount,
    OperationRequest,
    OperationShape,
    ReplayTriggers,
    ResumeJobs,
    ResumeRuns,
    RetryRuns,
)
from jobs.store import db

_EXAMPLE = OpenApiExample(
    "Two jobs, both or none",
    value={
        "all_or_nothing": True,
        "jobs": [
            {
                "name": f"report-{region}",
                "job_type": "webhook",
                "schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": zone},
                "payload": {"url": f"https://reports.example/{region}", "method": "POST"},
                "labels": {"kind": "report", "region": region},
            }
            for region, zone in (("in", "Asia/Kolkata"), ("de", "Europe/Berlin"))
        ],
    },
    request_only=True,
)

_OPERATION_EXAMPLES = (
    OpenApiExample(
        "How many would be paused",
        value={"verb": "pause", "filter": {"labels": "env=test"}, "dry_run": True},
        request_only=True,
    ),
    OpenApiExample(
        "Replay the dead letters of a broken target",
        value={"verb": "replay", "filter": {"job_type": "webhook", "reason": "exhausted"}, "per_second": 20},
        request_only=True,
    ),
    OpenApiExample(
        "Changes by another time limit",
        value={
            "verb": "edit",
            "filter": {"labels": "team=billing"},
            "changes": {"timeout_seconds": 120},
            "dry_run": True,
        },
        request_only=True,
    ),
    OpenApiExample(
        "Cancel the waiting triggers of one type",
        value={"verb": "cancel_triggers", "filter": {"job_type": "webhook"}},
        request_only=True,
    ),
    OpenApiExample(
        "Retry the runs that failed, ten a second",
        value={"verb": "retry_runs", "filter": {"state": "failed"}, "per_second": 10},
        request_only=True,
    ),
)


class BulkView(Endpoint):
    takes_much = True

    @endpoint(
        "Create up to 1,000 jobs; the answer has the result of each",
        request=Bulk,
        responses={200: BulkAnswer},
        examples=[_EXAMPLE],
        operation_id="jobs_bulk",
    )
    def post(self, request: Request) -> Response:
        sent = Bulk.read(self.body())
        if not sent.dry_run:
            return self._create(sent)
        with db.atomic():
            answer = self._create(sent)
            transaction.set_rollback(True)
        for result in answer.data["results"]:
            result.pop("id", None)  # no job will ever have this id
        return answer

    def _create(self, sent: Bulk) -> Response:
        outcomes = create_jobs(tenant=self.tenant, definitions=sent.jobs, all_or_nothing=sent.all_or_nothing)
        created = len(drafts(outcomes))
        results = [self._shown(index, outcome) for index, outcome in enumerate(outcomes)]
        shorten(result["problem"] for result in results if "problem" in result)
        return Response({"created": created, "refused": len(outcomes) - created, "results": results})

    def _shown(self, index: int, outcome: Outcome) -> dict[str, Any]:
        if isinstance(outcome, CarillonError):
            problem = problem_of(outcome, instance=self.request.path)
            return {"index": index, "status": problem["status"], "problem": problem}
        return {
            "index": index,
            "status": 201,
            "id": str(outcome.id),
            "name": outcome.name,
            "version": outcome.version,
            "next_fire_at": instant_text(outcome.next_fire_at),
        }


class OperationsView(Endpoint):
    queryset = Operation.objects.none()
    pagination_class = IdCursorPagination

    @endpoint(
        "List operations with their progress, newest first",
        responses={200: Many(OperationShape)},
        operation_id="operations_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Operation.objects.filter(tenant=self.tenant))

    @endpoint(
        "Apply one verb to all jobs, triggers or runs of workflows that match a filter",
        request=OperationRequest,
        responses={200: MatchCount, 202: OperationShape},
        examples=_OPERATION_EXAMPLES,
        operation_id="operations_create",
    )
    def post(self, request: Request) -> Response:
        sent = OperationRequest.read(self.body()).root
        wanted = read_filter(sent.filter, verb=sent.verb, tenant=self.tenant)
        how: dict[str, Any] = {}
        if isinstance(sent, EditJobs):
            how = {"changes": self._changes(sent.changes), "all_or_nothing": sent.all_or_nothing}
        elif isinstance(sent, ResumeJobs | ReplayTriggers | ResumeRuns | RetryRuns):
            how = {"per_second": sent.per_second}
        if sent.dry_run:
            return Response(self._counted(sent.verb, wanted, how.get("changes")))
        operation = actions.begin_operation(tenant=self.tenant, verb=sent.verb, wanted=wanted, **how)
        headers = {"Location": reverse("operation", args=[operation.id])}
        return Response(actions.representation(operation), status=202, headers=headers)

    def _changes(self, sent: object) -> dict[str, Any]:
        try:
            return definition.read_patch(sent, tenant=self.tenant)
        except InvalidInput as error:
            raise error.under("changes") from None

    def _counted(self, verb: str, wanted: dict[str, str], changes: object) -> dict[str, Any]:
        matching, exact = count(wanted, verb=verb, tenant=self.tenant)
        counted: dict[str, Any] = {"matching": matching, "exact": exact}
        if changes is not None:
            some = first(wanted, verb=verb, tenant=self.tenant, most=edits.PREVIEWED)
            counted |= edits.preview(some, tenant=self.tenant, changes=changes)
        return {name: value for name, value in MatchCount.of(counted).items() if name in counted}

    def present(self, row: Any) -> Any:
        return actions.representation(row)


class OperationView(Endpoint):
    @endpoint(
        "Read an operation",
        responses={200: OperationShape},
        problems=(404,),
        operation_id="operations_read",
    )
    def get(self, request: Request, operation_id: UUID) -> Response:
        found = actions.find_operation(tenant=self.tenant, operation_id=operation_id)
        return Response(actions.representation(found))


class OperationPauseView(Endpoint):
    @endpoint(
        "Pause an operation until it is resumed",
        responses={200: OperationShape},
        problems=(404,),
        operation_id="operations_pause",
    )
    def post(self, request: Request, operation_id: UUID) -> Response:
        self.refuse_body()
        paused = actions.pause_operation(tenant=self.tenant, operation_id=operation_id)
        return Response(actions.representation(paused))


class OperationResumeView(Endpoint):
    @endpoint(
        "Resume a paused operation",
        responses={200: OperationShape},
        problems=(404,),
        operation_id="operations_resume",
    )
    def post(self, request: Request, operation_id: UUID) -> Response:
        self.refuse_body()
        resumed = actions.resume_operation(tenant=self.tenant, operation_id=operation_id)
        return Response(actions.representation(resumed))


class OperationCancelView(Endpoint):
    @endpoint(
        "Cancel an operation; finished changes stay",
        responses={200: OperationShape},
        problems=(404,),
        operation_id="operations_cancel",
    )
    def post(self, request: Request, operation_id: UUID) -> Response:
        self.refuse_body()
        stopped = actions.cancel_operation(tenant=self.tenant, operation_id=operation_id)
        return Response(actions.representation(stopped))

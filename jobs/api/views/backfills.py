"""Backfills of one job: ``POST /jobs/{id}/backfill``, and how far they have come."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import backfill as actions
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import Many, endpoint
from jobs.api.views.base import Endpoint
from jobs.models import CatchUp
from jobs.shapes.history import BackfillShape, ExtentShape
from jobs.shapes.operations import BackfillRequest

_EXAMPLES = (
    OpenApiExample(
        "How many would run",
        value={"start": "2026-03-01T00:00:00Z", "end": "2026-03-07T23:59:59Z", "dry_run": True},
        request_only=True,
    ),
    OpenApiExample(
        "Run them", value={"start": "2026-03-01T00:00:00Z", "end": "2026-03-07T23:59:59Z"}, request_only=True
    ),
)


class BackfillView(Endpoint):
    @endpoint(
        "Run the firings of a past stretch; repeating the call changes nothing",
        request=BackfillRequest,
        responses={200: ExtentShape, 202: BackfillShape},
        problems=(404, 409),
        examples=_EXAMPLES,
        operation_id="jobs_backfill",
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        wanted = dict(BackfillRequest.read(self.body()))
        extent, backfill = actions.backfill_job(tenant=self.tenant, job_id=job_id, **wanted)
        if backfill is not None:
            return Response(actions.representation(backfill), status=202)
        return Response(ExtentShape.of({**wanted, "count": extent.count, "existing": extent.existing}))


class BackfillsView(Endpoint):
    queryset = CatchUp.objects.none()
    pagination_class = IdCursorPagination

    @endpoint(
        "List a job's backfills with their progress, newest first",
        responses={200: Many(BackfillShape)},
        problems=(404,),
        operation_id="jobs_backfills",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        return self.page_of(actions.backfills_of(tenant=self.tenant, job_id=job_id))

    def present(self, row: Any) -> Any:
        return actions.representation(row)


class BackfillCancelView(Endpoint):
    @endpoint(
        "Cancel a backfill; triggers that it has made still run",
        responses={200: BackfillShape},
        problems=(404,),
        operation_id="jobs_backfill_cancel",
    )
    def post(self, request: Request, job_id: UUID, backfill_id: UUID) -> Response:
        self.refuse_body()
        backfill = actions.cancel_backfill(tenant=self.tenant, job_id=job_id, backfill_id=backfill_id)
        return Response(actions.representation(backfill))

"""The job types there are, and previews of schedules."""

import re
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.jobs import find_job
from jobs.actions.pull import types
from jobs.api import examples
from jobs.api.firings import preview
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.core.errors import Conflict, InvalidInput, ScheduleError
from jobs.handlers import JobType
from jobs.shapes.job import Preview, PreviewRequest
from jobs.shapes.pull import JobTypes, JobTypeShape
from jobs.store.jobs import schedule_of
from tenants.clock import database_now

_MAX_FIRINGS = 1000
_FEW_FIRINGS = 10


class JobTypesView(Endpoint):
    @endpoint(
        "List the job types with their payload schemas",
        responses={200: JobTypes},
        operation_id="job_types_list",
    )
    def get(self, request: Request) -> Response:
        registered = {job_type.name: _present(job_type) for job_type in types.offered(self.tenant)}
        own = {declared.name: types.representation(declared) for declared in types.types_of(self.tenant)}
        return Response({"results": [shown for _, shown in sorted((registered | own).items())]})


class JobPreviewView(Endpoint):
    query_parameters = ("count",)

    @endpoint(
        "Preview the next firings of a job as if it were active",
        responses={200: Preview},
        problems=(404, 409),
        parameters=[
            OpenApiParameter(
                "count",
                {"type": "integer", "minimum": 1, "maximum": _MAX_FIRINGS},
                description=f"Number of firings; {_FEW_FIRINGS} by default.",
            )
        ],
        operation_id="jobs_preview",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        given = request.query_params.get("count", str(_FEW_FIRINGS))
        job = find_job(tenant=self.tenant, job_id=job_id)
        if not re.fullmatch("[0-9]{1,4}", given, re.ASCII) or not 1 <= int(given) <= _MAX_FIRINGS:
            raise InvalidInput({"count": f"Must be a whole number from 1 to {_MAX_FIRINGS}."})
        try:
            return Response(preview(schedule_of(job), after=database_now(), count=int(given)))
        except ScheduleError as error:
            raise Conflict(str(error)) from error


class SchedulePreviewView(Endpoint):
    @endpoint(
        "Preview the next firings of any schedule; nothing is stored",
        request=PreviewRequest,
        responses={200: Preview},
        examples=examples.PREVIEW,
        operation_id="schedules_preview",
    )
    def post(self, request: Request) -> Response:
        now = database_now()
        sent = PreviewRequest.read(self.body())
        after = sent.after or now
        return Response(preview(sent.schedule.at(after), after=after, count=sent.count))


def _present(job_type: JobType) -> dict[str, Any]:
    payload_schema = job_type.payload and job_type.payload.model_json_schema()
    return JobTypeShape.of(job_type, payload_schema=payload_schema)

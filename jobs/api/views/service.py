"""The job types there are, and previews of schedules."""

import re
from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import schedules
from jobs.actions.fields import Fields
from jobs.actions.jobs import find_job
from jobs.actions.pull import types
from jobs.actions.schedules import seconds
from jobs.api import examples
from jobs.api.firings import preview
from jobs.api.schema import endpoint
from jobs.api.serializers import JobTypesSerializer, PreviewRequestSerializer, PreviewSerializer
from jobs.api.views.base import Endpoint
from jobs.core.errors import Conflict, InvalidInput, ScheduleError
from jobs.core.schedule import EARLIEST, LATEST
from jobs.handlers import JobType, registry
from jobs.store import history
from jobs.store.jobs import schedule_of

_MOST_FIRINGS = 1000
_FEW_FIRINGS = 10


class JobTypesView(Endpoint):
    @endpoint(
        "List the job types and what payload each takes",
        responses={200: JobTypesSerializer},
        operation_id="job_types_list",
    )
    def get(self, request: Request) -> Response:
        registered = {job_type.name: _present(job_type) for job_type in registry.public_types()}
        own = {declared.name: types.representation(declared) for declared in types.types_of(self.tenant)}
        return Response({"results": [shown for _, shown in sorted((registered | own).items())]})


class JobPreviewView(Endpoint):
    query_parameters = ("count",)

    @endpoint(
        "The next firings of a job, were it active",
        responses={200: PreviewSerializer},
        problems=(404, 409),
        parameters=[
            OpenApiParameter(
                "count",
                {"type": "integer", "minimum": 1, "maximum": _MOST_FIRINGS},
                description=f"{_FEW_FIRINGS} by default.",
            )
        ],
        operation_id="jobs_preview",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        given = request.query_params.get("count", str(_FEW_FIRINGS))
        job = find_job(tenant=self.tenant, job_id=job_id)
        if not re.fullmatch("[0-9]{1,4}", given, re.ASCII) or not 1 <= int(given) <= _MOST_FIRINGS:
            raise InvalidInput({"count": f"Must be a whole number from 1 to {_MOST_FIRINGS}."})
        try:
            return Response(preview(schedule_of(job), after=history.database_now(), count=int(given)))
        except ScheduleError as error:
            raise Conflict(str(error)) from error


class SchedulePreviewView(Endpoint):
    @endpoint(
        "The next firings of any schedule; nothing is stored",
        request=PreviewRequestSerializer,
        responses={200: PreviewSerializer},
        examples=examples.PREVIEW,
        operation_id="schedules_preview",
    )
    def post(self, request: Request) -> Response:
        now = history.database_now()
        fields = Fields(self.body(), known=("schedule", "after", "count"))
        after: datetime = fields.instant("after") or now
        if not EARLIEST <= after <= LATEST:
            fields.complain("after", "Must lie between 2000-01-01 and 2100-01-01.")
        count = fields.number("count", 1, _MOST_FIRINGS, default=_FEW_FIRINGS, whole=True)
        parsed = fields.collect(
            lambda: schedules.parse_schedule(fields.get("schedule"), anchor=after), under="schedule"
        )
        fields.finish()
        assert parsed is not None
        return Response(preview(parsed.schedule, after=after, count=count))


def _present(job_type: JobType) -> dict[str, Any]:
    return {
        "name": job_type.name,
        "pull": job_type.pull,
        "description": job_type.description,
        "timeout_seconds": seconds(job_type.timeout),
        "batch_size": job_type.batch_size,
        "max_in_flight": job_type.max_in_flight,
        "payload_schema": job_type.payload and job_type.payload.model_json_schema(),
    }

"""``/job-types/{name}``: a tenant's own job types, served by its pull workers."""

from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.pull import types
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.shapes.pull import PULL_TYPE, Declaration, JobTypeShape

_EXAMPLE = OpenApiExample(
    "A type with a schema",
    value={
        "description": "Renders an invoice.",
        "payload_schema": {
            "type": "object",
            "properties": {"invoice": {"type": "integer", "minimum": 1}},
            "required": ["invoice"],
            "additionalProperties": False,
        },
        "timeout_seconds": 300,
        "max_in_flight": 4,
    },
    request_only=True,
)

_NAME = OpenApiParameter(
    "name",
    {"type": "string", "pattern": PULL_TYPE},
    OpenApiParameter.PATH,
    description="Letters, digits, underscores and dots, a letter first.",
)


class JobTypeView(Endpoint):
    @endpoint(
        "Read one of your pull types",
        responses={200: JobTypeShape},
        parameters=(_NAME,),
        problems=(404,),
        operation_id="job_types_read",
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(types.representation(types.find_type(tenant=self.tenant, name=name)))

    @endpoint(
        "Declare a job type that your pull workers serve, or replace its declaration",
        request=Declaration,
        responses={200: JobTypeShape, 201: JobTypeShape},
        problems=(404, 409),
        parameters=(_NAME,),
        examples=(_EXAMPLE,),
        operation_id="job_types_declare",
    )
    def put(self, request: Request, name: str) -> Response:
        declared, new = types.declare_type(tenant=self.tenant, name=name, declaration=self.body())
        return Response(types.representation(declared), status=201 if new else 200)

    @endpoint(
        "Delete one of your pull types, unless it has jobs or unfinished firings",
        responses={204: None},
        parameters=(_NAME,),
        problems=(404, 409),
        operation_id="job_types_delete",
    )
    def delete(self, request: Request, name: str) -> Response:
        self.refuse_body()
        types.withdraw_type(tenant=self.tenant, name=name)
        return Response(status=204)

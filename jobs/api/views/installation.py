"""``/installation``: the levers over all tenants, for keys of the installation.

A PATCH states the new values, so it may be repeated without an ``Idempotency-Key``, and there is no version to match.
"""

from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import levers
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.shapes.installation import (
    InstallationChanges,
    InstallationShape,
    JobTypeChanges,
    JobTypeLevers,
    JobTypesLevers,
)
from tenants.models import ApiKey

_NAME = OpenApiParameter(
    "name",
    {"type": "string", "pattern": "^[a-z][a-z0-9_.]{0,62}(@[0-9]{1,18})?$"},
    OpenApiParameter.PATH,
    description="A registered type, or a tenant's own type with @ and the tenant's number.",
)
_STOP = OpenApiExample(
    "Stop dispatch", value={"dispatch": "stopped", "reason": "Incident 42."}, request_only=True
)
_PAUSE = OpenApiExample(
    "Pause a type", value={"paused": True, "reason": "Its target is down."}, request_only=True
)


class OperatorEndpoint(Endpoint):
    """An endpoint of the installation: it needs no tenant."""

    scope = ApiKey.Scope.OPERATOR
    keyed = False


class InstallationView(OperatorEndpoint):
    @endpoint(
        "Read whether dispatch runs, for all tenants",
        responses={200: InstallationShape},
        operation_id="installation_read",
    )
    def get(self, request: Request) -> Response:
        return Response(levers.installation_representation(levers.installation()))

    @endpoint(
        "Stop or resume dispatch for all tenants",
        request=InstallationChanges,
        responses={200: InstallationShape},
        examples=(_STOP,),
        keyed=False,
        operation_id="installation_change",
    )
    def patch(self, request: Request) -> Response:
        return Response(levers.installation_representation(levers.change_installation(changes=self.body())))


class InstallationJobTypesView(OperatorEndpoint):
    @endpoint(
        "List the registered job types, and others that operators paused or capped",
        responses={200: JobTypesLevers},
        operation_id="installation_job_types_list",
    )
    def get(self, request: Request) -> Response:
        return Response({"results": levers.type_representations(levers.types())})


class InstallationJobTypeView(OperatorEndpoint):
    @endpoint(
        "Read the levers on one job type, and its triggers in flight",
        responses={200: JobTypeLevers},
        parameters=(_NAME,),
        problems=(404,),
        operation_id="installation_job_types_read",
    )
    def get(self, request: Request, name: str) -> Response:
        [shown] = levers.type_representations([levers.find_type(name)])
        return Response(shown)

    @endpoint(
        "Pause or resume a job type for all tenants, or cap its triggers in flight",
        request=JobTypeChanges,
        responses={200: JobTypeLevers},
        parameters=(_NAME,),
        problems=(404,),
        examples=(_PAUSE,),
        keyed=False,
        operation_id="installation_job_types_change",
    )
    def patch(self, request: Request, name: str) -> Response:
        [shown] = levers.type_representations([levers.change_type(name=name, changes=self.body())])
        return Response(shown)

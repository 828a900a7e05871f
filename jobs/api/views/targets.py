"""``/installation/targets``: the rules for the hosts that jobs call, for keys of the installation.

Each write states the new values. So it may be repeated without an ``Idempotency-Key``, and has no version to match.
"""

from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import targets
from jobs.api.schema import endpoint
from jobs.api.views.installation import OperatorEndpoint
from jobs.shapes.installation import TargetChanges, TargetShape, TargetsShape

_PATTERN = OpenApiParameter(
    "pattern",
    {"type": "string", "maxLength": 255},
    OpenApiParameter.PATH,
    description="A host such as api.example.com, api.example.com:8443 or *.example.com; * alone is every host.",
)
_PUT = OpenApiExample("Limit a host", value={"rate_per_second": 5, "max_in_flight": 20}, request_only=True)
_PAUSE = OpenApiExample("Pause a host", value={"paused": True, "reason": "It is down."}, request_only=True)


class TargetsView(OperatorEndpoint):
    @endpoint(
        "List the rules for targets, of operators and of the settings",
        responses={200: TargetsShape},
        operation_id="installation_targets_list",
    )
    def get(self, request: Request) -> Response:
        return Response({"results": targets.representations()})


class TargetView(OperatorEndpoint):
    @endpoint(
        "Set the rule for the targets that a pattern matches",
        request=TargetChanges,
        responses={200: TargetShape},
        parameters=(_PATTERN,),
        problems=(404, 409),
        examples=(_PUT,),
        keyed=False,
        operation_id="installation_targets_put",
    )
    def put(self, request: Request, pattern: str) -> Response:
        return Response(targets.put_target(pattern=pattern, changes=self.body()))

    @endpoint(
        "Pause or resume targets, or change their rate or cap",
        request=TargetChanges,
        responses={200: TargetShape},
        parameters=(_PATTERN,),
        problems=(404, 409),
        examples=(_PAUSE,),
        keyed=False,
        operation_id="installation_targets_change",
    )
    def patch(self, request: Request, pattern: str) -> Response:
        return Response(targets.change_target(pattern=pattern, changes=self.body()))

    @endpoint(
        "Delete a rule for targets",
        responses={204: None},
        parameters=(_PATTERN,),
        problems=(404, 409),
        keyed=False,
        operation_id="installation_targets_delete",
    )
    def delete(self, request: Request, pattern: str) -> Response:
        self.refuse_body()
        targets.delete_target(pattern=pattern)
        return Response(status=204)

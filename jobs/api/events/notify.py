"""``/tenant/notify``: the tenant's notices, for all jobs and workflows without a notify of their own."""

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import notices
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.shapes.notify import TenantNotify


class TenantNotifyView(Endpoint):
    reads_tenant = True

    @endpoint(
        "Set the notices for your jobs and workflows that have no notify of their own",
        request=TenantNotify,
        responses={200: TenantNotify},
        examples=[
            OpenApiExample(
                "Dead letters and pauses",
                value={"on": ["dead", "paused", "run_failed"], "url": "https://ops.example/hook"},
            )
        ],
        operation_id="tenant_notify",
    )
    def put(self, request: Request) -> Response:
        return Response(notices.set_tenant_notify(tenant=self.tenant, notify=self.body()))

    @endpoint(
        "Remove the notices for your jobs and workflows that have no notify of their own",
        responses={204: None},
        operation_id="tenant_notify_delete",
    )
    def delete(self, request: Request) -> Response:
        self.refuse_body()
        notices.set_tenant_notify(tenant=self.tenant, notify=None)
        return Response(status=204)

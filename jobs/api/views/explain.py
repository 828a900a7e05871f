"""Why a trigger or a job waits, and how the caller stands with its quotas."""

from uuid import UUID

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.firings import next_firing
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.explain import explain_job, explain_trigger, tenant_usage
from jobs.shapes.explain import JobExplanationShape, TenantShape, TriggerExplanation
from jobs.store.jobs import schedule_of

_EXAMPLE = OpenApiExample(
    "The tenant's cap is reached",
    value={
        "trigger_id": "0198c1f2-6c3a-7d4e-8a51-0d6f3a1b2c3d",
        "job_id": "0198c1f2-5b2b-7c3d-9b40-1c5e2f0a1b2c",
        "state": "pending",
        "reason": "",
        "at": "2030-01-31T02:00:04Z",
        "summary": "Tenant acme: 50 of 50 in flight.",
        "blocking": ["tenant_cap"],
        "bottleneck": None,
        "ahead": 12,
        "gates": [
            {
                "gate": "due",
                "passed": True,
                "detail": "Due since 2030-01-31T02:00:00Z, 4 s ago.",
                "opens_at": None,
                "limit": None,
                "used": None,
                "blockers": [],
            },
            {
                "gate": "tenant_cap",
                "passed": False,
                "detail": "Tenant acme: 50 of 50 in flight.",
                "opens_at": None,
                "limit": 50,
                "used": 50,
                "blockers": [],
            },
        ],
    },
    response_only=True,
    status_codes=["200"],
    media_type="application/json",
)


class TriggerExplainView(Endpoint):
    @endpoint(
        "Explain why a trigger waits: every gate between it and its start, or how it ended",
        responses={200: TriggerExplanation},
        problems=(404,),
        examples=[_EXAMPLE],
        operation_id="triggers_explain",
    )
    def get(self, request: Request, trigger_id: UUID) -> Response:
        return Response(explain_trigger(tenant=self.tenant, trigger_id=trigger_id).representation())


class JobExplainView(Endpoint):
    @endpoint(
        "Explain why a job's firings wait: the job's state, and the gates of the trigger that has waited "
        "longest",
        responses={200: JobExplanationShape},
        problems=(404,),
        operation_id="jobs_explain",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        explained = explain_job(tenant=self.tenant, job_id=job_id)
        next_fire_at = next_firing(explained.job, schedule_of(explained.job), now=explained.at)
        return Response(explained.representation(next_fire_at=next_fire_at))


class TenantView(Endpoint):
    reads_tenant = True

    @endpoint(
        "Read your quotas, how much of each you use, and your recent starts",
        responses={200: TenantShape},
        operation_id="tenant_read",
    )
    def get(self, request: Request) -> Response:
        return Response(tenant_usage(self.tenant))

"""``POST /jobs/bulk``: many jobs by one call."""

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.bulk.create import Outcome, create_jobs, drafts
from jobs.actions.fields import Fields
from jobs.actions.schedules import instant_text
from jobs.api.problems import problem_of
from jobs.api.schema import endpoint
from jobs.api.serializers import BulkAnswerSerializer, BulkSerializer
from jobs.api.views.base import Endpoint
from jobs.core.errors import CarillonError

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


class BulkView(Endpoint):
    @endpoint(
        "Create up to 1,000 jobs, and learn of each what became of it",
        request=BulkSerializer,
        responses={200: BulkAnswerSerializer},
        examples=[_EXAMPLE],
        operation_id="jobs_bulk",
    )
    def post(self, request: Request) -> Response:
        fields = Fields(self.body(), known=("jobs", "all_or_nothing"))
        together = fields.flag("all_or_nothing")
        fields.finish()
        outcomes = create_jobs(tenant=self.tenant, definitions=fields.get("jobs"), all_or_nothing=together)
        created = len(drafts(outcomes))
        results = [self._shown(index, outcome) for index, outcome in enumerate(outcomes)]
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

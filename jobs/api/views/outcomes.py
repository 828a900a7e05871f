"""``/jobs/{id}/stats`` and ``/attempts``: how firings went."""

from collections import Counter
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.jobs import find_job
from jobs.api.filters import AttemptFilter
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import Many, endpoint, fields_of
from jobs.api.views.base import Endpoint
from jobs.core.errors import InvalidInput
from jobs.core.histogram import percentile
from jobs.core.states import UNFINISHED
from jobs.models import Attempt
from jobs.shapes.history import AttemptShape, JobStats
from jobs.store.insight.outcomes import WINDOWS, Figures, statistics

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_USUAL_WINDOW = next(iter(WINDOWS))


class JobStatsView(Endpoint):
    query_parameters = ("window",)

    @endpoint(
        "How the firings of a job went: outcomes, start lag and duration, by time",
        responses={200: JobStats},
        problems=(404,),
        parameters=[
            OpenApiParameter(
                "window",
                str,
                enum=list(WINDOWS),
                description=f"Up to now, {_USUAL_WINDOW} by default: in buckets of an hour, six hours or a day.",
            )
        ],
        operation_id="jobs_stats",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        name = request.query_params.get("window", _USUAL_WINDOW)
        if name not in WINDOWS:
            raise InvalidInput({"window": f"Must be one of {', '.join(WINDOWS)}."})
        window = WINDOWS[name]
        job = find_job(tenant=self.tenant, job_id=job_id)
        found = statistics(job_id=job.id, window=window)
        return Response(
            JobStats.of(
                {
                    "job_id": job.id,
                    "window": name,
                    "since": found.since,
                    "until": found.until,
                    "bucket_seconds": round(window.bucket.total_seconds()),
                    "total": _told(found.total),
                    "buckets": [
                        {"at": found.since + number * window.bucket} | _told(bucket)
                        for number, bucket in enumerate(found.buckets)
                    ],
                }
            )
        )


class AttemptsView(Endpoint):
    queryset = Attempt.objects.none()
    shows = AttemptShape
    filterset_class = AttemptFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List attempts that went wrong, or all of one job, newest first",
        responses={200: Many(AttemptShape)},
        parameters=[fields_of(AttemptShape)],
        operation_id="attempts_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Attempt.objects.filter(tenant_id=self.tenant.id).exclude(error_code=""))


def _told(figures: Figures) -> dict[str, Any]:
    states = figures.states
    ran = states["succeeded"] + states["dead"]
    return {
        **{name: states[name] for name in ("succeeded", "dead", "skipped", "cancelled")},
        "unfinished": sum(states[state] for state in UNFINISHED),
        "success_rate": round(states["succeeded"] / ran, 6) if ran else None,
        "start_lag_seconds": _spread(figures.lag),
        "duration_seconds": _spread(figures.duration),
        "complete": figures.complete,
    }


def _spread(histogram: Counter[int]) -> dict[str, Any] | None:
    if not histogram:
        return None
    told = {name: percentile(histogram, share) for name, share in _PERCENTILES.items()}
    return {**told, "sample_size": histogram.total()}

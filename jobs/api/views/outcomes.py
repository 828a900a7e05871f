"""``/jobs/{id}/stats``, ``/stats``, ``/attempts`` and ``/attempts/{id}``: how firings went."""

from collections import Counter
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions.jobs import find_job
from jobs.actions.triggers import find_attempt
from jobs.api.pagination import IdCursorPagination
from jobs.api.schema import HISTORY, Many, endpoint, fields_of
from jobs.api.views.base import Endpoint
from jobs.core.activity import BURIALS, DURATION_BUCKETS, LAG_BUCKETS, SKIPS, time_within
from jobs.core.errors import InvalidInput
from jobs.core.histogram import percentile
from jobs.core.states import UNFINISHED
from jobs.models import Attempt
from jobs.selection.filters import AttemptFilter
from jobs.shapes.history import AttemptShape, JobStats, OneAttempt, TenantStats
from jobs.store.insight.outcomes import WINDOWS, Figures, Window, statistics
from jobs.store.insight.series.totals import totals

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_USUAL_WINDOW = next(iter(WINDOWS))
_WINDOW = OpenApiParameter(
    "window",
    str,
    enum=list(WINDOWS),
    description=f"Window that ends now, {_USUAL_WINDOW} by default; its buckets are an hour, six hours or a "
    "day.",
)


class JobStatsView(Endpoint):
    query_parameters = ("window",)

    @endpoint(
        "Read the figures of a job's firings: outcomes, start lag and duration, by time",
        responses={200: JobStats},
        problems=(404,),
        parameters=[_WINDOW],
        operation_id="jobs_stats",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        name, window = _window_of(request)
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


class TenantStatsView(Endpoint):
    query_parameters = ("window",)

    @endpoint(
        "Read the figures of all your firings: outcomes, start lag and duration, by time and by job type",
        responses={200: TenantStats},
        parameters=[_WINDOW],
        operation_id="stats",
    )
    def get(self, request: Request) -> Response:
        name, window = _window_of(request)
        found = totals(tenant_ids=[self.tenant.id], window=window)
        return Response(
            TenantStats.of(
                {
                    "window": name,
                    "since": found.since,
                    "until": found.until,
                    "bucket_seconds": round(window.bucket.total_seconds()),
                    "total": _counted(found.total),
                    "buckets": [
                        {"at": found.since + number * window.bucket} | _counted(bucket)
                        for number, bucket in enumerate(found.buckets)
                    ],
                    "job_types": [
                        {"job_type": job_type} | _counted(counts)
                        for job_type, counts in found.job_types.items()
                    ],
                }
            )
        )


class AttemptsView(Endpoint):
    of_history = True
    queryset = Attempt.objects.none()
    shows = AttemptShape
    filterset_class = AttemptFilter
    pagination_class = IdCursorPagination

    @endpoint(
        "List the attempts that went wrong, or all attempts of one job, newest first",
        responses={200: Many(AttemptShape)},
        parameters=[fields_of(AttemptShape), *HISTORY],
        operation_id="attempts_list",
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Attempt.objects.filter(tenant_id=self.tenant.id).exclude(error_code=""))


class AttemptView(Endpoint):
    shows = OneAttempt

    @endpoint(
        "Read an attempt with its output",
        responses={200: OneAttempt},
        problems=(404,),
        parameters=[fields_of(OneAttempt)],
        operation_id="attempts_read",
    )
    def get(self, request: Request, attempt_id: UUID) -> Response:
        attempt = find_attempt(tenant=self.tenant, attempt_id=attempt_id)
        return Response(self.of_interest(OneAttempt.of(attempt)))


def _window_of(request: Request) -> tuple[str, Window]:
    name = request.query_params.get("window", _USUAL_WINDOW)
    if name not in WINDOWS:
        raise InvalidInput({"window": f"Must be one of {', '.join(WINDOWS)}."})
    return name, WINDOWS[name]


def _told(figures: Figures) -> dict[str, Any]:
    states = figures.states
    return {
        **{name: states[name] for name in ("succeeded", "dead", "skipped", "cancelled")},
        "unfinished": sum(states[state] for state in UNFINISHED),
        "success_rate": _rate(states["succeeded"], states["dead"]),
        "start_lag_seconds": _spread(figures.lag),
        "duration_seconds": _spread(figures.duration),
        "complete": figures.complete,
    }


def _counted(counts: Counter[str]) -> dict[str, Any]:
    succeeded, dead = counts["ended_succeeded"], sum(counts[kind] for kind in BURIALS)
    return {
        "succeeded": succeeded,
        "dead": dead,
        "skipped": sum(counts[kind] for kind in SKIPS.values()),
        "cancelled": counts["cancelled"],
        "retried": counts["retried"],
        "success_rate": _rate(succeeded, dead),
        "start_lag_seconds": _coarse_spread(counts, LAG_BUCKETS),
        "duration_seconds": _coarse_spread(counts, DURATION_BUCKETS),
    }


def _rate(succeeded: int, dead: int) -> float | None:
    return round(succeeded / (succeeded + dead), 6) if succeeded + dead else None


def _coarse_spread(counts: Counter[str], buckets: tuple[str, ...]) -> dict[str, Any] | None:
    sample_size = sum(counts[bucket] for bucket in buckets)
    if not sample_size:
        return None
    told = {name: time_within(counts, buckets, share) for name, share in _PERCENTILES.items()}
    return {**told, "sample_size": sample_size}


def _spread(histogram: Counter[int]) -> dict[str, Any] | None:
    if not histogram:
        return None
    told = {name: percentile(histogram, share) for name, share in _PERCENTILES.items()}
    return {**told, "sample_size": histogram.total()}

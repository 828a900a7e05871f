"""``/jobs`` and the actions on one job."""

from collections.abc import Callable, Container
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.actions import definition
from jobs.actions import jobs as actions
from jobs.actions.jobs import find_job, find_job_by_name
from jobs.api import examples
from jobs.api.calls.preconditions import expected_version, precondition
from jobs.api.firings import clock_change, next_firing
from jobs.api.pagination import FiringCursorPagination, IdCursorPagination
from jobs.api.parsers import MergePatchParser, StrictJSONParser
from jobs.api.schema import ETAG, HISTORY, IF_MATCH, IF_NONE_MATCH, Many, endpoint, fields_of
from jobs.api.views.base import Endpoint
from jobs.core.errors import InvalidInput
from jobs.core.instants import instant_text
from jobs.models import Attempt, Job, SkippedRange, Trigger
from jobs.selection.filters import JobFilter, JobTriggerFilter, SkippedRangeFilter
from jobs.selection.rows import as_rows
from jobs.shapes.history import OF_HISTORY, AttemptShape, OneJob, SkippedRangeShape, TriggerShape
from jobs.shapes.job import Changes, Definition, JobShape, Pause, Replacement, Run, Status
from jobs.shapes.terms import LINE
from jobs.store import db
from jobs.store.insight import outcomes
from jobs.store.jobs import schedule_of
from tenants.clock import DatabaseNow, database_now

#: At most this many of the ranges that overlap a page are shown, the newest; outages leave far fewer.
_MAX_RANGES = 200


#: Fields of a job that are computed when they are asked for.
_COMPUTED: dict[str, Callable[..., Any]] = {"next_fire_at": next_firing, "clock_change": clock_change}
#: Any id, for a path in which it is then replaced by a job's id.
_SOME_ID = UUID(int=0)


def answer(job: Job, status: int = 200, wanted: frozenset[str] | None = None) -> Response:
    """A job, or the ``wanted`` fields of it, with the outcome of its latest firings, and its version as the ETag."""
    headers = {"ETag": f'"{job.version}"'}
    if status == 201:
        headers["Location"] = _path_of_some_job().replace(str(_SOME_ID), str(job.id))
    # A job that was just created is shown as of its creation, a moment ago.
    now = job.created_at if status == 201 else database_now()
    shown = _shown(job, now=now, wanted=wanted)
    if wanted is None or wanted & OF_HISTORY:
        latest = outcomes.latest(job.id) if status != 201 else None
        history = {
            "last_fired_at": instant_text(latest and latest.fired_at),
            "last_state": latest and latest.state,
            "last_error_code": latest and latest.error_code,
            "consecutive_failures": latest.failures if latest else 0,
        }
        shown |= {name: told for name, told in history.items() if wanted is None or name in wanted}
    return Response(shown, status=status, headers=headers)


@cache
def _path_of_some_job() -> str:
    return reverse("job", args=[_SOME_ID])


def _shown(job: Any, *, now: datetime, wanted: Container[str] | None) -> dict[str, Any]:
    """A job as JSON. ``job``: a model or a row of one."""
    shown = dict.fromkeys(_COMPUTED) | definition.representation(job)
    if wanted is not None:
        shown = {name: value for name, value in shown.items() if name in wanted}
    schedule = schedule_of(job)
    for name, compute in _COMPUTED.items():
        if name in shown:
            shown[name] = compute(job, schedule, now=now)
    return shown


_NAME = OpenApiParameter("name", {"type": "string", "pattern": LINE, "maxLength": 200}, OpenApiParameter.PATH)
_DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description="Check everything but store nothing: the answer is the same, and nothing is changed.",
)


class JobsView(Endpoint):
    queryset = Job.objects.none()
    shows = JobShape
    filterset_class = JobFilter
    pagination_class = IdCursorPagination

    @property
    def orderings(self) -> dict[str, str]:
        by_name = {"name": "name", "-name": "-name"}
        if self.request is not None and self.request.query_params.get("name_prefix"):
            return by_name
        return {**IdCursorPagination.orderings, **by_name}

    @endpoint(
        "List jobs, newest first",
        responses={200: Many(JobShape)},
        parameters=[fields_of(JobShape)],
        operation_id="jobs_list",
    )
    def get(self, request: Request) -> Response:
        # Each row brings the time: to ask for it first would take as long as to read the page.
        jobs = Job.objects.filter(tenant=self.tenant, deleted_at=None).annotate(now=DatabaseNow())
        return self.page_of(as_rows(jobs))

    @endpoint(
        "Create a job",
        request=Definition,
        responses={201: OneJob},
        parameters=[ETAG],
        examples=examples.CREATE,
        operation_id="jobs_create",
    )
    def post(self, request: Request) -> Response:
        return answer(actions.create_job(tenant=self.tenant, definition=request.data), 201)

    def present(self, row: Any) -> Any:
        return _shown(row, now=row.now, wanted=self.wanted)


class JobView(Endpoint):
    shows = OneJob
    parser_classes: tuple[type[BaseParser], ...] = (StrictJSONParser, MergePatchParser)

    @endpoint(
        "Read a job",
        responses={200: OneJob},
        problems=(404,),
        parameters=[ETAG, fields_of(OneJob)],
        operation_id="jobs_read",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        return answer(find_job(tenant=self.tenant, job_id=job_id), wanted=self.wanted)

    @endpoint(
        "Edit a job (JSON merge patch); makes a new version",
        request=Changes,
        responses={200: OneJob},
        problems=(404, 412, 428),
        parameters=[ETAG, IF_MATCH],
        examples=examples.PATCH,
        operation_id="jobs_update",
    )
    def patch(self, request: Request, job_id: UUID) -> Response:
        version = expected_version(request, tenant=self.tenant)
        return answer(
            actions.update_job(
                tenant=self.tenant, job_id=job_id, changes=request.data, expected_version=version
            )
        )

    @endpoint(
        "Cancel and delete a job; its history stays",
        responses={204: None},
        problems=(404, 412, 428),
        parameters=[IF_MATCH],
        operation_id="jobs_delete",
    )
    def delete(self, request: Request, job_id: UUID) -> Response:
        version = expected_version(request, tenant=self.tenant)
        actions.delete_job(tenant=self.tenant, job_id=job_id, expected_version=version)
        return Response(status=204)


class JobByNameView(Endpoint):
    """For callers that keep definitions in files: they know a job by its name, and send its whole definition."""

    shows = OneJob

    @endpoint(
        "Read the job with this name",
        responses={200: OneJob},
        problems=(404,),
        parameters=[_NAME, ETAG, fields_of(OneJob)],
        operation_id="jobs_read_by_name",
    )
    def get(self, request: Request, name: str) -> Response:
        return answer(find_job_by_name(tenant=self.tenant, name=name), wanted=self.wanted)

    @endpoint(
        "Create the job with this name, or replace its whole definition; repeating the call changes nothing",
        request=Replacement,
        responses={200: OneJob, 201: OneJob},
        problems=(404, 412, 428),
        parameters=[_NAME, ETAG, IF_MATCH, IF_NONE_MATCH, _DRY_RUN],
        examples=examples.PUT,
        operation_id="jobs_put_by_name",
    )
    def put(self, request: Request, name: str) -> Response:
        given = request.query_params.get("dry_run", "false")
        if given not in ("true", "false"):
            raise InvalidInput({"dry_run": "Must be true or false."})
        if given == "false":
            return self._put(request, name)
        with db.atomic():
            shown = self._put(request, name)
            transaction.set_rollback(True)
        shown.headers.pop("Location", None)
        return shown

    def _put(self, request: Request, name: str) -> Response:
        demanded = precondition(request, tenant=self.tenant)
        job, created = actions.put_job(
            tenant=self.tenant,
            name=name,
            definition=request.data,
            expected_version=demanded.version,
            exists=demanded.exists,
        )
        return answer(job, 201 if created else 200)

    def known_parameters(self) -> tuple[str, ...]:
        return ("dry_run",) if self.request.method == "PUT" else super().known_parameters()


class _JobActionView(Endpoint):
    """``POST /jobs/{id}/<verb>`` without a body."""

    verb: Callable[..., Job]

    def act(self, job_id: UUID) -> Response:
        self.refuse_body()
        version = expected_version(self.request, tenant=self.tenant)
        return answer(type(self).verb(tenant=self.tenant, job_id=job_id, expected_version=version))


class PauseView(Endpoint):
    @endpoint(
        "Pause a job until it is resumed, or until an instant",
        request=Pause,
        responses={200: OneJob},
        problems=(404, 412),
        parameters=[ETAG, IF_MATCH],
        examples=examples.PAUSE,
        operation_id="jobs_pause",
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        wanted = dict(Pause.read(self.body()))
        version = expected_version(request, tenant=self.tenant)
        return answer(
            actions.pause_job(tenant=self.tenant, job_id=job_id, expected_version=version, **wanted)
        )


class ResumeView(_JobActionView):
    verb = staticmethod(actions.resume_job)

    @endpoint(
        "Resume a paused job from now on",
        responses={200: OneJob},
        problems=(404, 412),
        parameters=[ETAG, IF_MATCH],
        operation_id="jobs_resume",
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        return self.act(job_id)


class CancelView(_JobActionView):
    verb = staticmethod(actions.cancel_job)

    @endpoint(
        "Cancel a job for good",
        responses={200: OneJob},
        problems=(404, 412),
        parameters=[ETAG, IF_MATCH],
        operation_id="jobs_cancel",
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        return self.act(job_id)


class StatusView(Endpoint):
    @endpoint(
        "Pause, resume or cancel a job by setting its status",
        request=Status,
        responses={200: OneJob},
        problems=(404, 412, 428),
        parameters=[ETAG, IF_MATCH],
        examples=examples.STATUS,
        operation_id="jobs_status",
    )
    def patch(self, request: Request, job_id: UUID) -> Response:
        status = Status.read(self.body()).status
        version = expected_version(request, tenant=self.tenant)
        return answer(
            actions.set_status(tenant=self.tenant, job_id=job_id, status=status, expected_version=version)
        )


class RunView(Endpoint):
    @endpoint(
        "Run a job now, in addition to its schedule",
        request=Run,
        responses={201: TriggerShape},
        problems=(404,),
        examples=examples.RUN,
        operation_id="jobs_run",
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        wanted = Run.read(self.body())
        trigger = actions.run_job_now(
            tenant=self.tenant,
            job_id=job_id,
            payload=wanted.payload,
            ignore_overlap=wanted.ignore_overlap,
        )
        headers = {"Location": reverse("trigger", args=[trigger.id])}
        return Response(TriggerShape.of(trigger), status=201, headers=headers)


class JobTriggersView(Endpoint):
    of_history = True
    queryset = Trigger.objects.none()
    shows = TriggerShape
    filterset_class = JobTriggerFilter
    pagination_class = FiringCursorPagination

    @endpoint(
        "List a job's triggers, the latest firing first",
        responses={200: Many(TriggerShape)},
        problems=(404,),
        parameters=[fields_of(TriggerShape), *HISTORY],
        operation_id="jobs_triggers",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        self.job = find_job(tenant=self.tenant, job_id=job_id)
        return self.page_of(Trigger.objects.filter(job=self.job))

    def page(self, queryset: QuerySet[Any]) -> Response:
        page = super().page(queryset)
        page.data["skipped_ranges"] = [SkippedRangeShape.of(row) for row in self._ranges(self.job)]
        return page

    def _ranges(self, job: Job) -> QuerySet[SkippedRange]:
        """The ranges on the page: records of firings that have no trigger each."""
        assert isinstance(self.paginator, FiringCursorPagination)
        after, until = self.paginator.stretch
        ranges = SkippedRange.objects.filter(job=job).order_by("-until_at")
        if after is not None:
            ranges = ranges.filter(until_at__gt=after)
        if until is not None:
            ranges = ranges.filter(from_at__lte=until)
        return SkippedRangeFilter(self.request.query_params, ranges).qs[:_MAX_RANGES]


class JobAttemptsView(Endpoint):
    of_history = True
    queryset = Attempt.objects.none()
    shows = AttemptShape
    pagination_class = IdCursorPagination

    @endpoint(
        "List a job's attempts, newest first",
        responses={200: Many(AttemptShape)},
        problems=(404,),
        parameters=[fields_of(AttemptShape), *HISTORY],
        operation_id="jobs_attempts",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        job = find_job(tenant=self.tenant, job_id=job_id)
        return self.page_of(Attempt.objects.filter(job_id=job.id))


class JobExecutionsView(JobAttemptsView):
    """The same under the name that other schedulers use."""

    @endpoint(
        "Alias of /jobs/{id}/attempts",
        responses={200: Many(AttemptShape)},
        problems=(404,),
        parameters=[fields_of(AttemptShape)],
        operation_id="jobs_executions",
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        return super().get(request, job_id)

"""Jobs: create, edit, pause, resume, cancel, run now, delete. Every write is one of ``jobs.actions.jobs``.

Deleted jobs are out of the list unless asked for; their pages stay, because their history does. What has ended cannot
be edited and is shown as the API shows it.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter, DropdownFilter
from unfold.enums import ActionVariant

from jobs.actions import definition as definitions
from jobs.actions import jobs as actions
from jobs.admin.firings.dead_letter import JobTypeFilter
from jobs.admin.job.form import JobForm
from jobs.admin.shared.cells import (
    duration_cell,
    instant_cell,
    instant_text,
    json_cell,
    state_label,
    trigger_link,
)
from jobs.admin.shared.lists import UncountedAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.core.errors import ScheduleError
from jobs.core.instants import LATEST
from jobs.core.policies import Priority
from jobs.core.schedule import fire_times
from jobs.core.states import JobStatus
from jobs.core.timezones import load_zone
from jobs.explain import explain_job
from jobs.models import Job, SkippedRange, Trigger
from jobs.shapes.schedule import COMMON, OWN
from tenants.clock import DatabaseNow, database_now

MAX_SHOWN = 10
#: The buttons that can succeed, by the job's status.
FITTING = {
    JobStatus.ACTIVE: ("run_now", "pause", "cancel", "delete_for_good"),
    JobStatus.PAUSED: ("resume", "cancel", "delete_for_good"),
    JobStatus.COMPLETED: ("run_now", "delete_for_good"),
    JobStatus.CANCELLED: ("delete_for_good",),
}


class DeletedFilter(DropdownFilter):
    """Living jobs by default."""

    title = "deleted"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [("1", "Deleted ones alone")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        return queryset.filter(deleted_at__isnull=self.value() != "1")


@admin.register(Job)
class JobAdmin(OperableAdmin, UncountedAdmin):
    list_display = (
        "name",
        "shown_status",
        "tenant",
        "job_type",
        "shown_schedule",
        "shown_priority",
        "next_firing",
    )
    list_filter = (
        ("status", ChoicesDropdownFilter),
        ("schedule_type", ChoicesDropdownFilter),
        ("priority", ChoicesDropdownFilter),
        JobTypeFilter,
        ("tenant", AutocompleteSelectFilter),
        DeletedFilter,
    )
    search_fields = ("id",)
    search_help_text = "Exact id, or how the name begins"
    fetched = ("tenant",)
    actions_detail = ("run_now", "pause", "resume", "cancel", "delete_for_good")
    actions = None
    change_form_outer_before_template = "admin/jobs/job/overview.html"
    change_form_outer_after_template = "admin/trail_link.html"
    conditional_fields = {
        f"schedule_{name}": f"schedule_type == '{kind}'" for kind, names in OWN.items() for name in names
    }
    policies = (
        ("priority", "timeout_seconds", "delivery"),
        ("overlap_policy", "max_concurrent", "concurrency_key"),
        ("misfire_policy", "misfire_grace_seconds", "catchup_window_seconds", "max_catchup"),
        "retry_policy",
        "notify",
        "pause_after_failures",
    )
    schedule = (
        "schedule_type",
        *(tuple(f"schedule_{name}" for name in names) for names in OWN.values() if names),
        tuple(f"schedule_{name}" for name in COMMON),
    )

    def get_form(
        self, request: HttpRequest, obj: Job | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm]:
        return JobForm

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return ((None, {"fields": ("shown_definition",)}),)
        which = (("name", "job_type"), "version") if obj else ("tenant", ("name", "job_type"))
        return (
            (None, {"fields": (*which, "labels", "payload")}),
            ("When", {"fields": self.schedule}),
            ("Policies", {"fields": self.policies}),
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> tuple[str, ...]:
        return ()

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: bool) -> None:
        """Nothing: the form has written it."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Each with the database's clock as ``now``, from which its next firing is shown."""
        return super().get_queryset(request).annotate(now=DatabaseNow())

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        ended = isinstance(obj, Job) and (
            obj.deleted_at is not None or obj.status in (JobStatus.CANCELLED, JobStatus.COMPLETED)
        )
        return not ended and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Django's way would collect every trigger; the button ``delete_for_good`` does not."""
        return False

    def has_remove_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("jobs.delete_job"))  # type: ignore[union-attr]

    def search_by_text(self, queryset: QuerySet[Job], text: str) -> QuerySet[Job]:
        return queryset.filter(name__startswith=text.replace("\0", ""))

    @button("Run now", asks="One firing more, due at once, beside the schedule.", icon="play_arrow")
    def run_now(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.run_job_now, done="Fired once more.")

    @button("Pause", asks="Nothing more of it starts until it is resumed; what runs finishes.", icon="pause")
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.pause_job, done="Paused.")

    @button("Resume", asks="It goes on from now; what fell due meanwhile is skipped.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.resume_job, done="Resumed.")

    @button(
        "Cancel",
        asks="It ends for good: what waits is cancelled, what runs is asked to stop. This cannot be undone.",
        icon="cancel",
        variant=ActionVariant.DANGER,
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.cancel_job, done="Cancelled.")

    @button(
        "Delete",
        asks="It is cancelled and taken out of sight; its name is free again and its history stays.",
        icon="delete",
        permission="remove",
        variant=ActionVariant.DANGER,
    )
    def delete_for_good(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        url = reverse("admin:jobs_job_changelist")
        return self._act(request, object_id, actions.delete_job, done="Deleted.", url=url)

    def _act(
        self, request: HttpRequest, object_id: str, act: Callable[..., Any], *, done: str, url: str = ""
    ) -> HttpResponseBase:
        job = self.row(request, object_id)
        return self.carry_out(request, job, lambda: act(tenant=job.tenant, job_id=job.id), done=done, url=url)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        job = self.get_object(request, object_id)
        fitting = FITTING[JobStatus(job.status)] if job is not None and job.deleted_at is None else ()
        return [action for action in super().get_actions_detail(request, object_id) if action.path in fitting]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context["overview"] = overview(kwargs["obj"])
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="status")
    def shown_status(self, job: Job) -> str:
        return state_label("deleted" if job.deleted_at else job.status)

    @admin.display(description="schedule")
    def shown_schedule(self, job: Job) -> str:
        return schedule_text(job)

    @admin.display(description="priority")
    def shown_priority(self, job: Job) -> str:
        return Priority(job.priority).label

    @admin.display(description="next firing")
    def next_firing(self, job: Job) -> str:
        instants, _ = next_instants(job, now=job.now, limit=1)  # type: ignore[attr-defined]
        return instant_cell(instants[0] if instants else None)

    @admin.display(description="definition")
    def shown_definition(self, job: Job) -> str:
        return json_cell(definitions.representation(job))


def schedule_text(job: Job) -> str:
    """``0 2 * * * Europe/Berlin``, ``every 5 s``, ``once …`` or ``immediate``."""
    if job.schedule_type == "cron":
        return f"{job.cron_expression} {job.timezone}"
    if job.schedule_type == "interval":
        return f"every {duration_cell(job.interval)}"
    return f"once {instant_text(job.run_at)}" if job.schedule_type == "once" else str(job.schedule_type)


def overview(job: Job) -> dict[str, Any]:
    """What a job's page says above its form: status, the latest firings, the next ones in UTC and the zone."""
    now = database_now()
    instants, problem = next_instants(job, now=now, limit=MAX_SHOWN)
    zone = UTC if problem else load_zone(job.timezone)
    return {
        "status": state_label("deleted" if job.deleted_at else job.status, job.status_reason),
        "tenant": job.tenant.slug,
        "why": "" if job.deleted_at else explain_job(tenant=job.tenant, job_id=job.id).summary,
        "schedule": schedule_text(job),
        "zone": job.timezone,
        "firings": [{"utc": instant_cell(at), "local": instant_cell(at, zone=zone)} for at in instants],
        "problem": problem,
        "jitter": duration_cell(job.jitter) if job.jitter else "",
        "recent": _recent(job, now=now),
        "all_triggers_url": f"{reverse('admin:jobs_trigger_changelist')}?q={job.id}",
    }


def _recent(job: Job, *, now: datetime) -> list[dict[str, Any]]:
    """The latest triggers and ranges of skipped firings, together by time."""
    triggers = Trigger.objects.filter(job_id=job.id, scheduled_for__lte=now).order_by("-scheduled_for")
    ranges = SkippedRange.objects.filter(job_id=job.id).order_by("-until_at")
    rows = [(trigger.scheduled_for, _fired(trigger)) for trigger in triggers[:MAX_SHOWN]]
    rows += [(skipped.until_at, _skipped(skipped)) for skipped in ranges[:MAX_SHOWN]]
    rows.sort(key=itemgetter(0), reverse=True)
    return [shown for _, shown in rows[:MAX_SHOWN]]


def _fired(trigger: Trigger) -> dict[str, Any]:
    started, finished = trigger.started_at, trigger.finished_at
    return {
        "at": trigger_link(trigger.id, instant_cell(trigger.scheduled_for)),
        "state": state_label(trigger.state, trigger.reason),
        "attempts": trigger.attempt_count,
        "duration": duration_cell(finished - started if started and finished else None),
    }


def _skipped(skipped: SkippedRange) -> dict[str, Any]:
    return {
        "at": instant_cell(skipped.until_at),
        "state": state_label("skipped", skipped.reason),
        "count": f"{skipped.count:,}",
        "since": instant_cell(skipped.from_at),
    }


def next_instants(job: Job, *, now: datetime, limit: int) -> tuple[list[datetime], str]:
    """The instants at which a job fires next, and why there are none."""
    if job.deleted_at is not None or job.status != JobStatus.ACTIVE:
        return [], f"None while it is {'deleted' if job.deleted_at else job.status}."
    try:
        instants = fire_times(definitions.schedule_of(job), after=now, until=LATEST, limit=limit)
    except ScheduleError as error:
        return [], str(error)
    return instants, "" if instants else "None: the schedule names no further time."

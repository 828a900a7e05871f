"""Dead letters: the triggers in state ``dead``, with what killed them, to be replayed: some, or all a filter matches.

Not a model of its own: a second list of triggers, served below theirs under the same permissions.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter
from unfold.enums import ActionVariant

from jobs.actions.triggers import MAX_NAMED, replay_dead_letters
from jobs.admin.shared.cells import coloured_label, instant_cell, job_link
from jobs.admin.shared.lists import CreatedWithin, ReadOnlyAdmin, UncountedChangeList, words
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.core.errors import CarillonError
from jobs.core.states import DEAD_REASONS
from jobs.handlers import registry
from jobs.models import Attempt, Trigger
from jobs.models.trigger import DEAD_LETTERS
from tenants.console import back_to

#: One click replays so many, so that it ends within a request; the next click takes the next.
MAX_AT_ONCE = 10_000


class ReasonFilter(DropdownFilter):
    title = "reason"
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(DEAD_REASONS)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Trigger]) -> QuerySet[Trigger]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


class JobTypeFilter(DropdownFilter):
    title = "job type"
    parameter_name = "job_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(job_type.name for job_type in registry.all_types())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(job_type=self.value()) if self.value() else queryset


class DeadLetterChangeList(UncountedChangeList):
    """Adds to each row of the page its last attempt, in one query."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        ids = [trigger.id for trigger in self.result_list]
        last = Attempt.objects.filter(trigger_id__in=ids).order_by("trigger_id", "-number")
        by_trigger = {attempt.trigger_id: attempt for attempt in last.distinct("trigger_id")}
        for trigger in self.result_list:
            trigger.last_attempt = by_trigger.get(trigger.id)


class DeadLetterAdmin(ReadOnlyAdmin, OperableAdmin):
    """Registered by ``TriggerAdmin``, which gives it its URLs."""

    tenant_path = "tenant_id"
    list_display = ("firing", "shown_reason", "job_cell", "tenant", "job_type", "attempt_count", "error")
    list_filter = (ReasonFilter, JobTypeFilter, ("tenant", AutocompleteSelectFilter), CreatedWithin)
    search_fields = ("id",)
    search_help_text = "Exact id of a trigger or a job"
    found_by = ("id", "job_id")
    fetched = ("job", "tenant")
    actions = ("replay_selected",)
    list_before_template = "admin/jobs/trigger/dead_letters.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trigger]:
        return super().get_queryset(request).filter(DEAD_LETTERS)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[UncountedChangeList]:
        return DeadLetterChangeList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        title = {"title": "Dead letters", "module_name": "dead letters"}
        response = super().changelist_view(request, title | (extra_context or {}))
        if isinstance(response, TemplateResponse) and self.has_operate_permission(request):
            # The button keeps the filter of the page it stands on.
            query = request.GET.urlencode()
            replay = {
                "title": "Replay all that match",
                "icon": "replay",
                "variant": ActionVariant.PRIMARY,
                "attrs": {},
                "dialog": True,
                "path": f"{reverse('admin:jobs_deadletter_replay')}{'?' if query else ''}{query}",
            }
            response.context_data["actions_list"] = [replay]  # type: ignore[index]
        return response

    @admin.action(description="Replay the selected", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Trigger]) -> None:
        across = request.POST.get("select_across") == "1"
        ids = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:MAX_NAMED]
        self._replay(request, queryset, chosen={"filter": request.GET.dict()} if across else {"ids": ids})

    @button(
        "Replay all that match",
        asks="Every dead letter that the filter and search of this list match runs once more, on all its pages, "
        f"up to {MAX_AT_ONCE:,} at a click: fresh retry budget, same idempotency key.",
        icon="replay",
    )
    def replay_matching(self, request: HttpRequest, form: Any) -> HttpResponseBase:
        matching = self.get_changelist_instance(request).get_queryset(request)
        self._replay(request, matching, chosen={"filter": request.GET.dict()})
        return back_to(request, f"{reverse('admin:jobs_deadletter_changelist')}?{request.GET.urlencode()}")

    def _replay(
        self, request: HttpRequest, matching: QuerySet[Trigger], *, chosen: Mapping[str, Any]
    ) -> None:
        """Replay the oldest of ``matching`` and say how many, and whether that was all."""
        dead = matching.prefetch_related(None).filter(DEAD_LETTERS).order_by("id")
        beyond = dead.values_list("id", flat=True)[MAX_AT_ONCE : MAX_AT_ONCE + 1].first()
        try:
            count = replay_dead_letters(
                tenant=None,
                queryset=dead if beyond is None else dead.filter(id__lt=beyond),
                chosen=chosen,
            )
        except CarillonError as error:
            messages.error(request, str(error))
            return
        more = "" if beyond is None else " More match: replay again for the next."
        messages.success(request, f"Replayed {count:,}.{more}")
        if skipped := (dead.filter(id__lt=beyond) if beyond else dead)[:1].first():
            messages.warning(
                request, f"Some cannot be replayed: the job of {skipped.id} is cancelled or deleted."
            )

    @admin.display(description="scheduled for")
    def firing(self, trigger: Trigger) -> str:
        return instant_cell(trigger.scheduled_for)

    @admin.display(description="reason")
    def shown_reason(self, trigger: Trigger) -> str:
        return coloured_label(trigger.reason, "danger")

    @admin.display(description="job")
    def job_cell(self, trigger: Trigger) -> str:
        return job_link(trigger.job_id, trigger.job.name)

    @admin.display(description="last error", empty_value="-")
    def error(self, trigger: Trigger) -> str | None:
        last: Attempt | None = getattr(trigger, "last_attempt", None)
        return f"{last.error_code}: {last.error_message}"[:160] if last else None

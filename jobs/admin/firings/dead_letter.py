"""Dead letters: the triggers in state ``dead``, with what killed them, to be replayed: some, or all a filter matches.

Not a model of its own: a second list of triggers, served below theirs under the same permissions.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.enums import ActionVariant

from jobs.actions.triggers import MAX_NAMED, replay_dead_letters
from jobs.admin.shared.cells import coloured_label, instant_cell, job_link, moment_cell
from jobs.admin.shared.filters import (
    CalledHostFilter,
    DeadReasonFilter,
    DiedSince,
    DiedUntil,
    DiedWithin,
    JobTypeFilter,
    LabelFilter,
    LastErrorFilter,
    LastHttpStatusFilter,
    TenantFilter,
)
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.admin.shared.shares import Share, Unconfirmed, check_confirmation
from jobs.admin.shared.walks import Walk, WalkedAdmin
from jobs.admin.shared.writes import OperableAdmin
from jobs.core.errors import CarillonError
from jobs.models import Attempt, Trigger
from jobs.models.trigger import DEAD_LETTERS
from tenants.clock import DatabaseNow
from tenants.models import Tenant

#: One click replays so many, so that it ends within a request; the next click takes the next.
MAX_AT_ONCE = 10_000


class _Opts:
    """The options of triggers under the name of this list, for its breadcrumb."""

    model_name, verbose_name, verbose_name_plural = "deadletter", "dead letter", "dead letters"

    def __getattr__(self, name: str) -> Any:
        return getattr(Trigger._meta, name)


def _shares(dead: QuerySet[Trigger]) -> list[Share]:
    """How many of each tenant there are, of what is bounded already."""
    counts = Counter(dead.values_list("tenant_id", flat=True))
    tenants = Tenant.objects.filter(pk__in=counts).order_by("slug")
    return [Share(tenant, counts[tenant.pk], kind="dead letter") for tenant in tenants]


class DeadLetterAdmin(ReadOnlyAdmin, WalkedAdmin, OperableAdmin):
    """Registered by ``TriggerAdmin``, which gives it its URLs."""

    tenant_path = "tenant_id"
    list_display = (
        "firing",
        "died",
        "shown_reason",
        "job_cell",
        "tenant",
        "job_type",
        "attempt_count",
        "error",
    )
    list_filter = (
        ("tenant", TenantFilter),
        JobTypeFilter,
        LabelFilter,
        DeadReasonFilter,
        LastErrorFilter,
        LastHttpStatusFilter,
        CalledHostFilter,
        DiedWithin,
        DiedSince,
        DiedUntil,
    )
    empty = "No dead letters: no trigger has been given up."
    heading = (
        "Triggers that were given up, the latest death first. A replay runs them once more, with a fresh retry budget "
        "and the same idempotency key."
    )
    search_fields = ("id",)
    search_help_text = "Exact id of a trigger or a job"
    found_by = ("id", "job_id")
    fetched = ("job", "tenant")
    actions = ("replay_selected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trigger]:
        rows: QuerySet[Trigger] = super().get_queryset(request).filter(DEAD_LETTERS)
        return rows.annotate(now=DatabaseNow())

    def walk(self, request: HttpRequest) -> Walk:
        return Walk(Trigger.objects.filter(DEAD_LETTERS), "finished_at")

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """The last attempt of each, in one query."""
        last = Attempt.objects.filter(trigger_id__in=[trigger.id for trigger in rows])
        last = last.order_by("trigger_id", "-number").distinct("trigger_id")
        by_trigger = {attempt.trigger_id: attempt for attempt in last} if rows else {}
        for trigger in rows:
            trigger.last_attempt = by_trigger.get(trigger.id)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        title = {"title": "Dead letters", "module_name": "dead letters"}
        response = super().changelist_view(request, title | (extra_context or {}))
        if isinstance(response, TemplateResponse):
            response.context_data["opts"] = _Opts()  # type: ignore[index]
        if isinstance(response, TemplateResponse) and self.has_operate_permission(request):
            # The button keeps the filter of the page it stands on.
            query = request.GET.urlencode()
            replay = {
                "title": "Replay all that match",
                "icon": "replay",
                "variant": ActionVariant.PRIMARY,
                "attrs": {},
                "dialog": False,
                "path": f"{reverse('admin:jobs_deadletter_replay')}{'?' if query else ''}{query}",
            }
            response.context_data["actions_list"] = [replay]  # type: ignore[index]
        return response

    @admin.action(description="Replay the selected", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Trigger]) -> None:
        """Those that were ticked, on one page. The button that replays all that match asks with their number."""
        if request.POST.get("select_across") == "1":
            messages.error(request, "To replay more than a page of them, use Replay all that match.")
            return
        ids = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:MAX_NAMED]
        dead = queryset.prefetch_related(None).filter(DEAD_LETTERS).order_by("id")
        for share in _shares(dead):
            self._replay(request, share, dead, chosen={"ids": ids})

    def replay_matching(self, request: HttpRequest) -> HttpResponseBase:
        """Asks with the number of each tenant, and replays what was confirmed: up to ``MAX_AT_ONCE`` at a click."""
        if not self.has_operate_permission(request):
            raise PermissionDenied
        dead, more = self._matching(request)
        shares = _shares(dead)
        back = f"{reverse('admin:jobs_deadletter_changelist')}?{request.GET.urlencode()}"
        if request.method == "POST":
            try:
                check_confirmation(request.POST, shares)
            except Unconfirmed as error:
                messages.error(request, str(error))
            else:
                for share in shares:
                    self._replay(request, share, dead, chosen={"filter": request.GET.dict()})
                return HttpResponseRedirect(back)
        asked = {
            "title": "Replay dead letters?" if shares else "Replay: no dead letter matches",
            "shares": shares,
            "more": more,
            "back": back,
            "opts": _Opts(),
        }
        return TemplateResponse(
            request, "admin/jobs/trigger/replay.html", self.admin_site.each_context(request) | asked
        )

    def _matching(self, request: HttpRequest) -> tuple[QuerySet[Trigger], bool]:
        """What the list shows, on all its pages: the oldest ``MAX_AT_ONCE``, and whether there are more."""
        matching = self.get_changelist_instance(request).get_queryset(request)
        dead = matching.prefetch_related(None).filter(DEAD_LETTERS).order_by("id")
        beyond = dead.values_list("id", flat=True)[MAX_AT_ONCE : MAX_AT_ONCE + 1].first()
        return (dead, False) if beyond is None else (dead.filter(id__lt=beyond), True)

    def _replay(
        self, request: HttpRequest, share: Share, dead: QuerySet[Trigger], *, chosen: Mapping[str, Any]
    ) -> None:
        """Replay a tenant's, and say how many, and whether some cannot be."""
        try:
            count = replay_dead_letters(tenant=share.tenant, queryset=dead, chosen=chosen)
        except CarillonError as error:
            messages.error(request, f"{share.tenant.slug}: {error}")
            return
        messages.success(request, f"Replayed {count:,} of {share.tenant.slug}.")
        if skipped := dead.filter(tenant_id=share.tenant.pk)[:1].first():
            messages.warning(
                request, f"Some cannot be replayed: the job of {skipped.id} is cancelled or deleted."
            )

    @admin.display(description="scheduled for")
    def firing(self, trigger: Trigger) -> str:
        return instant_cell(trigger.scheduled_for)

    @admin.display(description="died")
    def died(self, trigger: Trigger) -> str:
        return moment_cell(trigger.finished_at, now=trigger.now)  # type: ignore[attr-defined]

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

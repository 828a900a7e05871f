"""Dead letters: the triggers in state ``dead`` with their reasons and last errors. An operator may replay or dismiss
some of them, or all that match.

They are not a model of their own, but a second list of triggers, served below the first under the same permissions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

from jobs.actions.triggers import MAX_NAMED, dismiss_dead_letters, replay_dead_letters
from jobs.admin.shared.cells import coloured_label, instant_cell, moment_cell, work_link
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
from jobs.admin.shared.shares import Share, check_confirmation
from jobs.admin.shared.walks import Walk, WalkedAdmin
from jobs.admin.shared.writes import OperableAdmin, read_note
from jobs.core.errors import CarillonError
from jobs.models import Attempt, Trigger
from jobs.models.firings.trigger import DEAD_LETTERS
from jobs.shapes.operations import MAX_NOTE
from tenants.clock import DatabaseNow
from tenants.models import Tenant

#: One click takes so many, so that it ends within a request; the next click takes the following ones.
MAX_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class _Deed:
    """An act on dead letters, and the words for it on the page that asks."""

    name: str
    says: str
    done: str
    act: Callable[..., int]
    is_noted: bool = False

    @property
    def title(self) -> str:
        return f"{self.name.capitalize()} dead letters?"

    @property
    def confirm(self) -> str:
        return f"{self.name.capitalize()} these"


REPLAY = _Deed(
    "replay",
    "Each runs once more, with a new retry budget and the same idempotency key.",
    "Replayed",
    replay_dead_letters,
)
DISMISS = _Deed(
    "dismiss",
    "They leave this list and its counts. They stay dead: each trigger's page keeps the note, and can replay it.",
    "Dismissed",
    dismiss_dead_letters,
    is_noted=True,
)


class _Opts:
    """The options of triggers under the name of this list, for its breadcrumb."""

    model_name, verbose_name, verbose_name_plural = "deadletter", "dead letter", "dead letters"

    def __getattr__(self, name: str) -> Any:
        return getattr(Trigger._meta, name)


def _ticks(request: HttpRequest) -> list[str]:
    return request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)


def _shares(dead: QuerySet[Trigger]) -> list[Share]:
    """How many of ``dead`` each tenant has; ``dead`` is bounded already."""
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
    empty = "There are no dead letters: every trigger succeeded or is still being tried."
    heading = (
        "Triggers that were given up, the latest death first. A replay runs them once more, with a fresh retry budget "
        "and the same idempotency key; to dismiss one takes it off this list, with a note."
    )
    search_fields = ("id",)
    search_help_text = "Exact id of a trigger or a job"
    found_by = ("id", "job_id")
    fetched = ("job", "tenant")
    actions = ("replay_selected", "dismiss_selected")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trigger]:
        rows: QuerySet[Trigger] = super().get_queryset(request).filter(DEAD_LETTERS)
        return rows.annotate(now=DatabaseNow())

    def walk(self, request: HttpRequest) -> Walk:
        return Walk(Trigger.objects.filter(DEAD_LETTERS), "finished_at")

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add the last attempt of each, in one query."""
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
            response.context_data["actions_list"] = [  # type: ignore[index]
                {
                    "title": f"{deed.name.capitalize()} all that match",
                    "icon": icon,
                    "variant": variant,
                    "attrs": {},
                    "dialog": False,
                    "path": f"{reverse(f'admin:jobs_deadletter_{deed.name}')}{'?' if query else ''}{query}",
                }
                for deed, icon, variant in (
                    (REPLAY, "replay", ActionVariant.PRIMARY),
                    (DISMISS, "inventory_2", ActionVariant.DEFAULT),
                )
            ]
        return response

    @admin.action(description="Replay the selected", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Trigger]) -> None:
        """Replay the ticked ones, on one page. The button that replays all that match asks with their number."""
        if (dead := self._ticked(request, queryset, REPLAY)) is not None:
            for share in _shares(dead):
                self._carry_out(request, REPLAY, share, dead, chosen={"ids": _ticks(request)[:MAX_NAMED]})

    @admin.action(description="Dismiss the selected", permissions=["operate"])
    def dismiss_selected(self, request: HttpRequest, queryset: QuerySet[Trigger]) -> HttpResponseBase | None:
        """Dismiss the ticked ones, on one page; asks for a note."""
        if (dead := self._ticked(request, queryset, DISMISS)) is None:
            return None
        ids, shares = _ticks(request), _shares(dead)
        if "note" in request.POST and self._confirmed(
            request, DISMISS, shares, dead, chosen={"ids": ids[:MAX_NAMED]}
        ):
            return None
        kept = [("action", "dismiss_selected"), *((helpers.ACTION_CHECKBOX_NAME, one) for one in ids)]
        return self._ask(request, DISMISS, shares, kept=kept, back=request.get_full_path())

    def replay_matching(self, request: HttpRequest) -> HttpResponseBase:
        return self._do_to_matching(request, REPLAY)

    def dismiss_matching(self, request: HttpRequest) -> HttpResponseBase:
        return self._do_to_matching(request, DISMISS)

    def _do_to_matching(self, request: HttpRequest, deed: _Deed) -> HttpResponseBase:
        """Ask with the number of each tenant; once confirmed, do it to up to ``MAX_AT_ONCE`` at a click."""
        if not self.has_operate_permission(request):
            raise PermissionDenied
        dead, more = self._matching(request)
        shares, chosen = _shares(dead), {"filter": request.GET.dict()}
        back = f"{reverse('admin:jobs_deadletter_changelist')}?{request.GET.urlencode()}"
        if request.method == "POST" and self._confirmed(request, deed, shares, dead, chosen=chosen):
            return HttpResponseRedirect(back)
        return self._ask(request, deed, shares, more=more, back=back)

    def _confirmed(
        self,
        request: HttpRequest,
        deed: _Deed,
        shares: list[Share],
        dead: QuerySet[Trigger],
        *,
        chosen: Mapping[str, Any],
    ) -> bool:
        """Whether the present numbers were confirmed; if so, it is done."""
        try:
            check_confirmation(request.POST, shares)
            noted = {"note": read_note(request.POST)} if deed.is_noted else {}
        except CarillonError as error:
            messages.error(request, str(error))
            return False
        for share in shares:
            self._carry_out(request, deed, share, dead, chosen=chosen, **noted)
        return True

    def _ask(
        self,
        request: HttpRequest,
        deed: _Deed,
        shares: list[Share],
        *,
        back: str,
        more: bool = False,
        kept: Sequence[tuple[str, str]] = (),
    ) -> TemplateResponse:
        asked = {
            "title": deed.title if shares else f"{deed.name.capitalize()}: no dead letter matches",
            "deed": deed,
            "shares": shares,
            "more": more,
            "kept": kept,
            "note": request.POST.get("note", "")[:MAX_NOTE],
            "max_note": MAX_NOTE,
            "back": back,
            "opts": _Opts(),
        }
        return TemplateResponse(
            request, "admin/jobs/trigger/dead_letters.html", self.admin_site.each_context(request) | asked
        )

    def _ticked(
        self, request: HttpRequest, queryset: QuerySet[Trigger], deed: _Deed
    ) -> QuerySet[Trigger] | None:
        """The ticked dead letters; None, with a message that says why, if a click meant all pages."""
        if request.POST.get("select_across") == "1":
            verb = deed.name.capitalize()
            messages.error(request, f"To {deed.name} more than one page, use {verb} all that match.")
            return None
        return queryset.prefetch_related(None).filter(DEAD_LETTERS).order_by("id")

    def _matching(self, request: HttpRequest) -> tuple[QuerySet[Trigger], bool]:
        """The dead letters of all pages of the list: the oldest ``MAX_AT_ONCE``, and whether there are more."""
        matching = self.get_changelist_instance(request).get_queryset(request)
        dead = matching.prefetch_related(None).filter(DEAD_LETTERS).order_by("id")
        beyond = dead.values_list("id", flat=True)[MAX_AT_ONCE : MAX_AT_ONCE + 1].first()
        return (dead, False) if beyond is None else (dead.filter(id__lt=beyond), True)

    def _carry_out(
        self, request: HttpRequest, deed: _Deed, share: Share, dead: QuerySet[Trigger], **told: Any
    ) -> None:
        """Do it to a tenant's dead letters, and say to how many, and whether some are left."""
        try:
            count = deed.act(tenant=share.tenant, queryset=dead, **told)
        except CarillonError as error:
            messages.error(request, f"{share.tenant.slug}: {error}")
            return
        messages.success(request, f"{deed.done} {count:,} of {share.tenant.slug}.")
        if deed is REPLAY and (skipped := dead.filter(tenant_id=share.tenant.pk)[:1].first()):
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
        return work_link(trigger.job, run_id=trigger.workflow_run_id)

    @admin.display(description="last error", empty_value="-")
    def error(self, trigger: Trigger) -> str | None:
        last: Attempt | None = getattr(trigger, "last_attempt", None)
        return f"{last.error_code}: {last.error_message}"[:160] if last else None

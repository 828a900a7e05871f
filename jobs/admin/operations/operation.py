"""Operations on all that match a filter: how far each has come, and buttons to pause, resume and stop it.

They are begun over the API and from the list of jobs. Here an operator sees those of all tenants within reach and how
far they have come, and ends one that does harm.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from unfold.contrib.filters.admin import DropdownFilter
from unfold.enums import ActionVariant

from jobs.actions.bulk import operations as actions
from jobs.admin.operations.progress import progress, refusals_cell
from jobs.admin.shared.cells import NOTHING, instant_cell, json_cell, state_label
from jobs.admin.shared.lists import CreatedWithin, ReadOnlyAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.models import Operation

#: The buttons that can succeed, by the operation's status.
FITTING = {"running": ("pause", "stop"), "paused": ("resume", "stop")}


class UnfinishedFilter(DropdownFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [("unfinished", "Only unfinished ones")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Operation]) -> QuerySet[Operation]:
        return queryset.filter(finished_at=None) if self.value() == "unfinished" else queryset


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin, OperableAdmin):
    tenant_path = "tenant_id"
    trail_kind = "operation"
    list_display = ("begun", "what", "tenant", "status", "done", "refused", "shown_filter", "asked_for_by")
    list_before_template = "admin/jobs/operation/list_before.html"
    list_filter = (UnfinishedFilter, CreatedWithin)
    search_help_text = "Exact id of an operation"
    fetched = ("tenant",)
    veiled = ("shown_changes",)
    actions_detail = ("pause", "resume", "stop")
    change_form_outer_before_template = "admin/jobs/operation/live.html"
    change_form_outer_after_template = "admin/trail_link.html"
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("what", "tenant", "status"),
                    ("done", "refused", "shown_checked", "pace"),
                    ("begun", "went_on", "ended", "asked_for_by"),
                )
            },
        ),
        (
            "Filter and changes",
            {"fields": ("shown_filter", "shown_changes", "reason", "all_or_nothing")},
        ),
        ("First refusals", {"fields": ("shown_refusals",)}),
    )

    @button(
        "Pause",
        asks="The operation stops until it is resumed; finished changes stay.",
        icon="pause",
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.pause_operation, done="Paused.")

    @button("Resume", asks="The operation goes on where it was paused.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.resume_operation, done="Resumed.")

    @button(
        "Stop",
        asks="The operation ends for good; finished changes stay.",
        icon="cancel",
        variant=ActionVariant.DANGER,
    )
    def stop(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.cancel_operation, done="Stopped.")

    def _act(
        self, request: HttpRequest, object_id: str, act: Callable[..., Any], *, done: str
    ) -> HttpResponseBase:
        operation = self.row(request, object_id)
        return self.carry_out(
            request,
            operation,
            lambda: act(tenant=operation.tenant, operation_id=operation.id),
            done=done,
        )

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context["progress"] = progress(kwargs["obj"])
        return super().render_change_form(request, context, *args, **kwargs)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        operation = self.get_object(request, object_id)
        fitting = FITTING.get(actions.status_of(operation), ()) if operation is not None else ()
        return [action for action in super().get_actions_detail(request, object_id) if action.path in fitting]

    @admin.display(description="begun")
    def begun(self, operation: Operation) -> str:
        return instant_cell(operation.created_at)

    @admin.display(description="what")
    def what(self, operation: Operation) -> str:
        return operation.verb.replace("_", " ")

    @admin.display(description="status")
    def status(self, operation: Operation) -> str:
        return state_label(actions.status_of(operation))

    @admin.display(description="checked")
    def shown_checked(self, operation: Operation) -> str:
        return f"{operation.checked:,}" if operation.all_or_nothing else NOTHING

    @admin.display(description="most per second")
    def pace(self, operation: Operation) -> str:
        return NOTHING if operation.per_second is None else f"{operation.per_second:g}"

    @admin.display(description="last progress")
    def went_on(self, operation: Operation) -> str:
        return instant_cell(operation.updated_at)

    @admin.display(description="ended")
    def ended(self, operation: Operation) -> str:
        return instant_cell(operation.finished_at)

    @admin.display(description="requested by")
    def asked_for_by(self, operation: Operation) -> str:
        return (operation.asked_by or {}).get("name", NOTHING)

    @admin.display(description="filter")
    def shown_filter(self, operation: Operation) -> str:
        return ", ".join(f"{name}={value}" for name, value in operation.filter.items()) or "all"

    @admin.display(description="changes")
    def shown_changes(self, operation: Operation) -> str:
        return NOTHING if operation.changes is None else json_cell(operation.changes)

    @admin.display(description="refusals")
    def shown_refusals(self, operation: Operation) -> str:
        return refusals_cell(operation)

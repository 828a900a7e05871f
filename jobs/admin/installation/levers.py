"""Levers over all tenants: dispatch as a whole, and each job type. Every write is one of ``jobs.actions.levers``."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from unfold.dataclasses import UnfoldAction
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from jobs.actions import levers
from jobs.admin.charts.scope import type_charts
from jobs.admin.shared.cells import NOTHING, coloured_label, instant_cell
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.models import Installation, Queue
from jobs.shapes.installation import MAX_REASON_LENGTH
from tenants.forms import WholeNumberField


class ReasonForm(BaseDialogForm):
    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="Reason. Tenants see it where they ask why a firing waits.",
    )


class CapForm(BaseDialogForm):
    max_in_flight = WholeNumberField(
        required=False,
        min_value=1,
        max_value=1_000_000,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Most triggers in flight, over all tenants; empty: no limit. The handler's limit still "
        "holds.",
    )


@admin.register(Installation)
class InstallationAdmin(ReadOnlyAdmin, OperableAdmin):
    """The one row of the installation. The buttons need no row."""

    trail_kind = "installation"
    list_display = ("dispatch", "since", "stopped_by", "stop_reason")
    list_display_links = ("dispatch",)
    ordering = ("id",)
    fields = ("dispatch", "since", "stopped_by", "stop_reason")
    actions_list = ("stop", "start")
    change_form_outer_after_template = "admin/trail_link.html"

    @button(
        "Stop dispatch",
        asks="Nothing is dispatched for any tenant, and no queued trigger starts, until dispatch is resumed. "
        "Running attempts go on. Missed firings follow each job's misfire policy, as after an outage.",
        icon="pan_tool",
        variant=ActionVariant.DANGER,
        form=ReasonForm,
    )
    def stop(self, request: HttpRequest, form: Any) -> HttpResponseBase:
        changes = {"dispatch": "stopped", "reason": form.cleaned_data["reason"]}
        return self._change(request, changes, done="Dispatch is stopped.")

    @button("Resume dispatch", asks="Due triggers are dispatched again.", icon="play_arrow")
    def start(self, request: HttpRequest, form: Any) -> HttpResponseBase:
        return self._change(request, {"dispatch": "running"}, done="Dispatch is resumed.")

    def _change(self, request: HttpRequest, changes: dict[str, str], *, done: str) -> HttpResponseBase:
        return self.carry_out(
            request,
            levers.installation(),
            lambda: levers.change_installation(changes=changes),
            done=done,
            url=reverse("admin:jobs_installation_changelist"),
        )

    def get_actions_list(self, request: HttpRequest) -> list[UnfoldAction]:
        fitting = "start" if levers.installation().stopped_at else "stop"
        return [action for action in super().get_actions_list(request) if action.path == fitting]

    @admin.display(description="dispatch")
    def dispatch(self, installation: Installation) -> str:
        return coloured_label("stopped", "danger") if installation.stopped_at else "runs"

    @admin.display(description="since")
    def since(self, installation: Installation) -> str:
        return instant_cell(installation.stopped_at)


@admin.register(Queue)
class JobTypeAdmin(ReadOnlyAdmin, OperableAdmin):
    """Job types whose queues a beat has opened, with the operators' decisions about each."""

    trail_kind = "job_type"
    list_display = ("job_type", "state", "cap_of_operators", "pause_reason")
    ordering = ("job_type",)
    search_fields = ("job_type",)
    search_help_text = "Beginning of the name"
    found_by = ("job_type",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("job_type", "state"),
                    ("paused_since", "paused_by", "pause_reason"),
                    ("own_cap", "cap_of_operators"),
                    ("queued", "running"),
                )
            },
        ),
    )
    actions_detail = ("pause", "resume", "cap")
    change_form_outer_after_template = "admin/jobs/queue/below.html"

    @button(
        "Pause",
        asks="No trigger of this type starts, for any tenant, until it is resumed; running attempts finish.",
        icon="pause",
        form=ReasonForm,
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        changes = {"paused": True, "reason": form.cleaned_data["reason"]}
        return self._change(request, object_id, changes, done="Paused.")

    @button("Resume", asks="Due triggers of this type are dispatched again.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change(request, object_id, {"paused": False}, done="Resumed.")

    @button(
        "Cap",
        asks="From now on at most this many triggers of the type are in flight. Triggers in flight go on.",
        icon="speed",
        form=CapForm,
    )
    def cap(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        cap = form.cleaned_data["max_in_flight"]
        done = "The cap is lifted." if cap is None else f"Capped at {cap:,}."
        return self._change(request, object_id, {"max_in_flight": cap}, done=done)

    def _change(
        self, request: HttpRequest, object_id: str, changes: dict[str, Any], *, done: str
    ) -> HttpResponseBase:
        row = self.row(request, unquote(object_id))
        act: Callable[[], Any] = lambda: levers.change_type(name=row.job_type, changes=changes)  # noqa: E731
        return self.carry_out(request, row, act, done=done)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        row = self.get_object(request, unquote(str(object_id)))
        hidden = "pause" if row is None or row.paused_at else "resume"
        return [action for action in super().get_actions_detail(request, object_id) if action.path != hidden]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context["charts"] = type_charts(kwargs["obj"].job_type)
        return super().render_change_form(request, context, *args, **kwargs)

    def search_by_text(self, queryset: QuerySet[Queue], text: str) -> QuerySet[Queue]:
        return queryset.filter(job_type__startswith=text.replace("\0", ""))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row, with the triggers in flight of its type as ``shown``."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            [row.shown] = levers.type_representations(levers.rows_of(row.job_type))
        return row

    @admin.display(description="state")
    def state(self, queue: Queue) -> str:
        return coloured_label("paused", "warning") if queue.paused_at else "runs"

    @admin.display(description="paused since")
    def paused_since(self, queue: Queue) -> str:
        return instant_cell(queue.paused_at)

    @admin.display(description="at most in flight, by its handler")
    def own_cap(self, queue: Any) -> str:
        cap = queue.shown["own_max_in_flight"]
        return NOTHING if cap is None else f"{cap:,}"

    @admin.display(description="at most in flight, by operators")
    def cap_of_operators(self, queue: Queue) -> str:
        return NOTHING if queue.max_in_flight is None else f"{queue.max_in_flight:,}"

    @admin.display(description="queued")
    def queued(self, queue: Any) -> str:
        return f"{queue.shown['queued']:,}"

    @admin.display(description="running")
    def running(self, queue: Any) -> str:
        return f"{queue.shown['running']:,}"


def banner(request: HttpRequest) -> dict[str, Any]:
    """A context processor: the page that has a place for it calls ``dispatch_stop``, once."""
    return {"dispatch_stop": lambda: levers.installation()}

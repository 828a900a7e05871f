"""Rules for the hosts that jobs call. Every write is one of ``jobs.actions.targets``."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from unfold.dataclasses import UnfoldAction
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
)

from jobs.actions import targets
from jobs.admin.installation.levers import ReasonForm
from jobs.admin.shared.cells import NOTHING, coloured_label, instant_cell
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.core.levers.targets import MAX_IN_FLIGHT, MAX_PATTERN_LENGTH, MAX_RATE
from jobs.models import TargetRule
from tenants.forms import NumberField, WholeNumberField

_PAUSES = (
    "No trigger that calls it starts, for any tenant, until it is resumed; running attempts finish, and no "
    "attempt is spent."
)


def _host() -> forms.CharField:
    return forms.CharField(
        max_length=MAX_PATTERN_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="api.example.com, api.example.com:8443 or *.example.com; * alone is every host.",
    )


class LimitsForm(BaseDialogForm):
    rate_per_second = NumberField(
        required=False,
        min_value=0,
        max_value=MAX_RATE,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Most calls per second to each host, over all tenants. 0: no limit; empty: a less "
        "specific rule decides.",
    )
    max_in_flight = WholeNumberField(
        required=False,
        min_value=1,
        max_value=MAX_IN_FLIGHT,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Most triggers queued or running at once for each host, over all tenants. Empty: a less "
        "specific rule decides.",
    )


class HostLimitsForm(LimitsForm):
    host = _host()
    field_order = ("host", "rate_per_second", "max_in_flight")


class HostReasonForm(ReasonForm):
    host = _host()
    field_order = ("host", "reason")


@admin.register(TargetRule)
class TargetRuleAdmin(ReadOnlyAdmin, OperableAdmin):
    """Operators' rules. They win over the rules of the settings, which the API and ``carillon targets`` list."""

    trail_kind = "target"
    list_display = ("name", "state", "rate", "cap", "pause_reason")
    ordering = ("name",)
    search_fields = ("name",)
    search_help_text = "Beginning of the host"
    found_by = ("name",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("name", "state"),
                    ("rate", "cap"),
                    ("paused_since", "paused_by", "pause_reason"),
                )
            },
        ),
    )
    actions_list = ("pause_host", "limit_host")
    actions_detail = ("pause", "resume", "limit", "remove")
    change_form_outer_after_template = "admin/trail_link.html"

    @button(
        "Pause a host",
        asks=_PAUSES,
        icon="pause",
        variant=ActionVariant.DANGER,
        form=HostReasonForm,
    )
    def pause_host(self, request: HttpRequest, form: Any) -> HttpResponseBase:
        changes = {"paused": True, "reason": form.cleaned_data["reason"]}
        return self._change(request, form.cleaned_data["host"], changes, done="Paused.")

    @button(
        "Limit a host",
        asks="The limit holds for each host that the pattern matches.",
        icon="speed",
        form=HostLimitsForm,
    )
    def limit_host(self, request: HttpRequest, form: Any) -> HttpResponseBase:
        return self._change(request, form.cleaned_data["host"], _limits(form), done="Limited.")

    @button(
        "Pause",
        asks=_PAUSES,
        icon="pause",
        form=ReasonForm,
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        changes = {"paused": True, "reason": form.cleaned_data["reason"]}
        return self._change(request, self._named(request, object_id), changes, done="Paused.")

    @button("Resume", asks="Triggers that wait for it are dispatched again.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change(request, self._named(request, object_id), {"paused": False}, done="Resumed.")

    @button(
        "Limit", asks="The limit holds for each host that the pattern matches.", icon="speed", form=LimitsForm
    )
    def limit(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change(request, self._named(request, object_id), _limits(form), done="Limited.")

    @button("Remove", asks="Less specific rules and those of the settings then apply.", icon="delete")
    def remove(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        name = self._named(request, object_id)
        return self._carry_out(request, name, lambda: targets.delete_target(pattern=name), done="Removed.")

    def _change(
        self, request: HttpRequest, name: str, changes: dict[str, Any], *, done: str
    ) -> HttpResponseBase:
        return self._carry_out(
            request, name, lambda: targets.change_target(pattern=name, changes=changes), done=done
        )

    def _carry_out(self, request: HttpRequest, name: str, write: Any, *, done: str) -> HttpResponseBase:
        # Back to the list: a rule that says nothing any more is gone.
        url = reverse("admin:jobs_targetrule_changelist")
        row = TargetRule.objects.filter(name=name).first() or TargetRule(name=name)
        return self.carry_out(request, row, write, done=done, url=url)

    def _named(self, request: HttpRequest, object_id: str) -> str:
        return str(self.row(request, unquote(object_id)).name)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        row = self.get_object(request, unquote(str(object_id)))
        hidden = "pause" if row is None or row.paused_at else "resume"
        return [action for action in super().get_actions_detail(request, object_id) if action.path != hidden]

    def search_by_text(self, queryset: QuerySet[TargetRule], text: str) -> QuerySet[TargetRule]:
        return queryset.filter(name__startswith=text.replace("\0", "").lower())

    @admin.display(description="state")
    def state(self, rule: TargetRule) -> str:
        return coloured_label("paused", "warning") if rule.paused_at else "runs"

    @admin.display(description="paused since")
    def paused_since(self, rule: TargetRule) -> str:
        return instant_cell(rule.paused_at)

    @admin.display(description="most calls a second to each host")
    def rate(self, rule: TargetRule) -> str:
        rate = rule.rate_per_second
        return NOTHING if rate is None else f"{rate:g}" if rate else "no limit"

    @admin.display(description="most in flight to each host")
    def cap(self, rule: TargetRule) -> str:
        return NOTHING if rule.max_in_flight is None else f"{rule.max_in_flight:,}"


def _limits(form: Any) -> dict[str, Any]:
    return {name: form.cleaned_data[name] for name in ("rate_per_second", "max_in_flight")}

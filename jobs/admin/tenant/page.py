"""Tenants, with their use: ``tenants.admin`` edits them, and knows nothing of jobs; the rest is here.

Figures of the list are read only for the rows of its page, in one bounded statement each.
"""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from unfold.dataclasses import UnfoldAction
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.views import ChangeList

from jobs.actions import tenancy
from jobs.admin.shared.cells import NOTHING
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.admin.tenant.standing import seconds, standing_of
from jobs.store import jobs
from jobs.store.insight.usage import MAX_LISTED, backlog, in_flight, standings
from tenants.admin import TenantAdmin
from tenants.console.reach import held_to_reach
from tenants.models import Tenant
from tenants.quotas import QUOTAS, WEIGHT, Quota, Reached

#: The buttons that change something, by the tenant's status.
FITTING = {
    Tenant.Status.ACTIVE: ("suspend", "freeze"),
    Tenant.Status.SUSPENDED: ("activate", "freeze"),
    Tenant.Status.FROZEN: ("activate", "suspend"),
}
STATUSES = ("activate", "suspend", "freeze")


class StatusDialog(BaseDialogForm):
    """Says how much a change of status concerns."""

    form_before_template = "admin/tenants/tenant/concerned.html"

    def get_before_template_context(self, request: HttpRequest, object_id: Any = None) -> dict[str, Any]:
        held = held_to_reach(request.user, Tenant.objects.all(), tenant="pk")
        tenant = held.filter(pk=object_id).first() if str(object_id).isdecimal() else None
        if tenant is None:
            return {}
        flying = in_flight(tenant.pk)
        return {
            "tenant": tenant,
            "jobs": jobs.living(tenant.pk),
            "in_flight": flying.queued + flying.running,
            "due": sum(row.count for row in backlog(tenant.pk)),
        }


class TenantList(ChangeList):
    """Each row of the page, with its figures as ``standing``."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)  # type: ignore[has-type]
        if self.model_admin.shows_figures(request):
            found = standings([row.pk for row in rows])
            for row in rows:
                row.standing = found[row.pk]
        self.result_list = rows


admin.site.unregister(Tenant)


@admin.register(Tenant)
class TenantPage(OperableAdmin, TenantAdmin):
    list_display: tuple[str, ...] = (
        "slug",
        "name",
        "status",
        "in_flight",
        "due",
        "oldest",
        "dead",
        "max_jobs",
        "created",
    )
    # A row takes a millisecond to show, so there is no page of all.
    list_per_page = list_max_show_all = 50
    figures = ("in_flight", "due", "oldest", "dead")
    change_form_outer_before_template = "admin/tenants/tenant/standing.html"
    change_form_outer_after_template = "admin/tenants/tenant/below.html"
    actions_detail: tuple[str, ...] = (*STATUSES, *TenantAdmin.actions_detail)

    def shows_figures(self, request: HttpRequest) -> bool:
        """They are sums of triggers: users who may see triggers may see them."""
        return bool(request.user.has_perm("jobs.view_trigger"))  # type: ignore[union-attr]

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        hidden = () if self.shows_figures(request) else self.figures
        return tuple(name for name in self.list_display if name not in hidden)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return TenantList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        tenant = kwargs.get("obj")
        if tenant is not None and self.shows_figures(request):
            # The form may have put typed values that were refused into its row.
            present = Tenant.objects.get(pk=tenant.pk) if request.method == "POST" else tenant
            context["standing"] = standing = standing_of(present)
            standing["links"] = [
                link
                for link in standing["links"]
                if request.user.has_perm(link["permission"])  # type: ignore[union-attr]
            ]
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:
        """The form has written it; this tells the effect of a change of a quota."""
        super().save_model(request, obj, form, change)
        for quota in QUOTAS:
            if change and quota.name in form.changed_data:
                messages.info(
                    request, effect_of(quota, form.initial[quota.name], form.cleaned_data[quota.name])
                )

    @button(
        "Activate",
        asks="Its keys work again, and waiting triggers are dispatched within its limits. Missed firings "
        "follow each job's misfire policy.",
        icon="play_arrow",
        form=StatusDialog,
    )
    def activate(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change_status(request, object_id, Tenant.Status.ACTIVE, done="Activated.")

    @button(
        "Suspend",
        asks="Its keys are refused and no trigger of it starts; running attempts finish. Due firings wait "
        "until it is active again, and then follow each job's misfire policy.",
        icon="pause",
        variant=ActionVariant.DANGER,
        form=StatusDialog,
    )
    def suspend(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change_status(request, object_id, Tenant.Status.SUSPENDED, done="Suspended.")

    @button(
        "Freeze",
        asks="Its keys can only read. Due firings are skipped for good, with the reason frozen; firings that "
        "were tried before wait, and running attempts finish.",
        icon="ac_unit",
        variant=ActionVariant.DANGER,
        form=StatusDialog,
    )
    def freeze(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._change_status(request, object_id, Tenant.Status.FROZEN, done="Frozen.")

    def _change_status(
        self, request: HttpRequest, object_id: str, status: str, *, done: str
    ) -> HttpResponseBase:
        tenant = self.row(request, object_id)
        return self.carry_out(
            request,
            tenant,
            lambda: tenancy.change(tenant.slug, changes={"status": str(status)}),
            done=done,
            url=reverse("admin:tenants_tenant_change", args=[tenant.pk]),
        )

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        tenant = self.get_object(request, object_id)
        hidden = set(STATUSES) - set(FITTING[Tenant.Status(tenant.status)] if tenant else ())
        return [one for one in super().get_actions_detail(request, object_id) if one.path not in hidden]

    @admin.display(description="in flight")
    def in_flight(self, tenant: Any) -> str:
        return f"{tenant.standing.in_flight:,} of {tenant.max_in_flight:,}"

    @admin.display(description="due")
    def due(self, tenant: Any) -> str:
        return self._counted(tenant.standing.due, tenant, "jobs_trigger_changelist", tab="late")

    @admin.display(description="oldest due for")
    def oldest(self, tenant: Any) -> str:
        waited = tenant.standing.oldest_seconds
        return NOTHING if waited is None else seconds(waited)

    @admin.display(description="dead in 24 h")
    def dead(self, tenant: Any) -> str:
        return self._counted(tenant.standing.dead, tenant, "jobs_deadletter_changelist", died="24h")

    def _counted(self, number: int, tenant: Tenant, page: str, **filters: str) -> str:
        """``100+`` where counting ends, as a link to the list."""
        if not number:
            return "0"
        url = f"{reverse(f'admin:{page}')}?{urlencode({'tenant__id__exact': tenant.pk} | filters)}"
        more = "+" if number >= MAX_LISTED else ""
        return format_html('<a class="text-link" href="{}">{}{}</a>', url, f"{number:,}", more)


def effect_of(quota: Quota, before: int | None, now: int | None) -> str:
    """The effect of a change of a quota, in a sentence or two."""
    told = f"{quota.name}: {_told(before)} before, {_told(now)} now."
    raised = now is None or (before is not None and now > before)
    if quota is WEIGHT:
        return f"{told} Its share of the starts changes while tenants compete."
    if quota.reached is Reached.INVALID:
        return f"{told} It applies to requests from now on; existing objects stay."
    if quota.reached is Reached.CONFLICT:
        effect = "More may be added." if raised else "None is removed; further ones are refused at the limit."
        return f"{told} {effect}"
    if raised:
        return f"{told} Triggers that waited for it go on at once."
    return f"{told} Triggers in flight go on; further ones start once use has fallen below it."


def _told(number: int | None) -> str:
    return "none" if number is None else f"{number:,}"

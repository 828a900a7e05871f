"""The page of charts, and the fragment that pages of a tenant, a job type or a job fetch once it is scrolled to."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from jobs.admin.charts.figures import charts_of
from jobs.admin.charts.scope import MAX_TENANTS, Scope, scope_of
from jobs.admin.shared.pages import ConsolePage
from jobs.core.pull import shown_name
from jobs.handlers import registry
from jobs.models import MetricTenant
from jobs.store.db import StatementFailed
from jobs.store.insight.outcomes import SPANS
from tenants.console.reach import held_to_reach
from tenants.models import Tenant

SPAN_TEXTS = {"1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "90d": "90 days"}
MAX_OFFERED = 50


class Figures(ConsolePage):
    """The charts that the query string asks for, without a page around them."""

    title = "Charts"
    permission = "jobs.view_trigger"
    template_name = "admin/charts/figures.html"
    scope: Scope

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.has_perm(self.permission):  # type: ignore[union-attr]
            self.scope = scope_of(request.user, request.GET.dict())
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        scope = self.scope
        own: dict[str, Any] = {
            "scope": scope,
            "spans": self._spans(),
            "is_cut": scope.is_cut,
            "most": MAX_TENANTS,
            "fragment": type(self) is Figures,
        }
        try:
            own["charts"] = charts_of(scope)
        except StatementFailed:
            own["trouble"] = (
                "The database took too long for this span. Choose a shorter one, or try again later."
            )
        return super().get_context_data(**(own | kwargs))

    def _spans(self) -> list[dict[str, Any]]:
        scope = self.scope
        return [
            {
                "text": SPAN_TEXTS[name],
                "chosen": name == scope.span,
                "page": scope.page(span=name),
                "fragment": scope.fragment(span=name),
            }
            for name in SPANS
        ]


class Charts(Figures):
    template_name = "admin/charts/page.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(types=self._types(), tenants=self._tenants(), **kwargs)

    def _types(self) -> list[tuple[str, str]]:
        known = {one.name: one.name for one in registry.public_types()}
        chosen = self.scope.job_type
        if chosen:
            known.setdefault(chosen, shown_name(chosen))
        return sorted(known.items())

    def _tenants(self) -> list[str]:
        """Slugs that are offered while the user types: of the busiest tenants, or of those within reach."""
        user = self.request.user
        named = MetricTenant.objects.values_list("tenant_id", flat=True)[:MAX_OFFERED]
        offered = Tenant.objects.all()
        if not self.scope.tenant_ids or self.scope.is_all or self.scope.tenant:
            offered = offered.filter(pk__in=list(named))
        held = held_to_reach(user, offered, tenant="pk")
        return list(held.order_by("slug").values_list("slug", flat=True)[:MAX_OFFERED])

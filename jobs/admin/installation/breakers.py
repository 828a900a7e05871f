"""Circuit breakers that are open or probe: which tenant's calls of which target fail. Read-only: probes close them."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.admin.shared.cells import moment_cell, state_label
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.core.levers.breaker import BreakerState
from jobs.models import Breaker
from tenants.clock import DatabaseNow


@admin.register(Breaker)
class BreakerAdmin(ReadOnlyAdmin):
    """Breakers in the order of their next probes. Closed ones are left out: there is nothing to know about them."""

    tenant_path = "tenant_id"
    list_display = ("target", "tenant", "shown_state", "since", "next_probe", "openings")
    ordering = ("probe_at",)
    fetched = ("tenant",)
    fields = (
        ("target", "tenant"),
        ("shown_state", "since", "next_probe"),
        ("openings", "failures", "successes"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Breaker]:
        rows: QuerySet[Breaker] = super().get_queryset(request)
        return rows.exclude(state=BreakerState.CLOSED.value).annotate(now=DatabaseNow())

    @admin.display(description="state")
    def shown_state(self, breaker: Breaker) -> str:
        return state_label(breaker.state)

    @admin.display(description="since")
    def since(self, breaker: Breaker) -> str:
        return moment_cell(breaker.changed_at, now=breaker.now)  # type: ignore[attr-defined]

    @admin.display(description="next probe")
    def next_probe(self, breaker: Breaker) -> str:
        return moment_cell(breaker.probe_at, now=breaker.now)  # type: ignore[attr-defined]

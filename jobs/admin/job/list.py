"""The list of jobs: by age, or by their next firing, with dots that show how each job's last firings went."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter

from jobs.admin.job.times import next_instants, schedule_text
from jobs.admin.shared.cells import NOTHING, moment_cell, state_label
from jobs.admin.shared.filters import DeletedFilter, JobTypeFilter, LabelFilter, TenantFilter
from jobs.admin.shared.lists import is_id, words
from jobs.admin.shared.marks import strip, trigger_mark
from jobs.admin.shared.walks import Tab, Walk, WalkedAdmin
from jobs.core.policies import Priority
from jobs.core.states import JobStatus
from jobs.models import Job, JobLabel
from jobs.store.console.lists import at_rest, labelled, latest_firings, named
from tenants.clock import DatabaseNow

#: Dots of a job.
MAX_DOTS = 12
_AT_REST = (JobStatus.PAUSED, JobStatus.COMPLETED, JobStatus.CANCELLED)
_COLUMNS = (
    "name",
    "shown_status",
    "last_firings",
    "tenant",
    "job_type",
    "shown_schedule",
    "shown_priority",
    "next_firing",
)


class StatusFilter(DropdownFilter):
    """Jobs at rest are found tenant by tenant, on the index that holds no others; those that fire are sifted."""

    title = "status"
    parameter_name = "status__exact"

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self._admin = model_admin

    @property
    def leads(self) -> frozenset[str]:
        return frozenset({"id"} if self.value() in _AT_REST else ())

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(JobStatus)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        status = self.value()
        if status in _AT_REST and request.GET.get("deleted") != "1":
            found = at_rest(tenant_ids=self._admin.tenants_of(request), status=status)
            queryset = queryset.filter(id__in=found)
        return queryset.filter(status=status) if status else queryset


class JobLabelFilter(LabelFilter):
    """The first label leads, tenant by tenant; a job must have the others too."""

    leads = frozenset({"id"})

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self._admin = model_admin

    def having(self, request: HttpRequest, rows: QuerySet[Any], wanted: dict[str, str]) -> QuerySet[Any]:
        [(key, value), *others] = wanted.items()
        tenant_ids = self._admin.tenants_of(request)
        rows = rows.filter(id__in=labelled(tenant_ids=tenant_ids, key=key, value=value))
        for key, value in others:
            having = JobLabel.objects.filter(tenant_id__in=tenant_ids, key=key, value=value)
            rows = rows.filter(id__in=having.values("job_id"))
        return rows


class JobList(WalkedAdmin):
    """The list's half of ``JobAdmin``."""

    tabs = (
        Tab("newest", "Newest", "There are no jobs yet.", _COLUMNS),
        Tab("next", "Next to fire", "No job fires: none is active and has a firing ahead.", _COLUMNS),
    )
    list_display = _COLUMNS
    list_filter = (
        ("tenant", TenantFilter),
        JobTypeFilter,
        JobLabelFilter,
        StatusFilter,
        ("schedule_type", ChoicesDropdownFilter),
        ("priority", ChoicesDropdownFilter),
        DeletedFilter,
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Jobs, each with the database's clock as ``now``, from which its next firing is shown."""
        rows: QuerySet[Job] = super().get_queryset(request).annotate(now=DatabaseNow())
        return rows

    def walk(self, request: HttpRequest) -> Walk:
        tab, rows = self.tab(request), Job.objects.all()
        if tab is not None and tab.name == "next":
            return Walk(_firing(rows), "next_fire_at", falling=False, by_tenant=False)
        deleted, one = request.GET.get("deleted") == "1", self.tenant_of(request) is not None
        if one and not deleted:
            return Walk(rows.filter(deleted_at__isnull=True))
        # It also looks at hidden jobs, by the primary key alone; the list itself leaves them out.
        return Walk(Job.with_hidden.all(), sifts=True, by_tenant=False)

    def of_tab(self, request: HttpRequest, rows: QuerySet[Job]) -> QuerySet[Job]:
        tab = self.tab(request)
        return _firing(rows) if tab is not None and tab.name == "next" else rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by name, tenant by tenant: names are indexed so."""
        text = search_term.strip().replace("\0", "")
        if not text or is_id(text):
            return super().get_search_results(request, queryset, search_term)
        return queryset.filter(id__in=named(tenant_ids=self.tenants_of(request), prefix=text)), False

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        found = latest_firings(job_ids=[job.id for job in rows], each=MAX_DOTS) if rows else {}
        for job in rows:
            job.latest = found.get(job.id, [])

    @admin.display(description="status")
    def shown_status(self, job: Job) -> str:
        return state_label("deleted" if job.deleted_at else job.status)

    @admin.display(description="last firings")
    def last_firings(self, job: Any) -> SafeString | str:
        if not job.latest:
            return NOTHING
        marks = strip(
            (trigger_mark(trigger) for trigger in job.latest), label=f"The last {len(job.latest)} firings"
        )
        return format_html('<div class="firings-small" style="min-width: 8rem">{}</div>', marks)

    @admin.display(description="schedule")
    def shown_schedule(self, job: Job) -> str:
        return schedule_text(job)

    @admin.display(description="priority")
    def shown_priority(self, job: Job) -> str:
        return Priority(job.priority).label

    @admin.display(description="next firing")
    def next_firing(self, job: Any) -> str:
        instants, _ = next_instants(job, now=job.now, limit=1)
        return moment_cell(instants[0] if instants else None, now=job.now)


def _firing(rows: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs that stand in the index of next firings."""
    return rows.filter(status=JobStatus.ACTIVE, next_fire_at__isnull=False)

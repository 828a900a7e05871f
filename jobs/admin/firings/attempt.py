"""Attempts: one try at one trigger each. Read-only; newest first."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from jobs.admin.shared.cells import (
    duration_cell,
    flower_url,
    instant_cell,
    result_url,
    state_label,
    text_cell,
    trigger_link,
    work_link,
)
from jobs.admin.shared.filters import (
    AttemptErrorFilter,
    AttemptTypeFilter,
    HttpStatusFilter,
    MadeSince,
    MadeUntil,
    MadeWithin,
    TenantOfAttempts,
)
from jobs.admin.shared.lists import ReadOnlyAdmin, first_id_since
from jobs.admin.shared.walks import Walk, WalkedAdmin
from jobs.core.states import AttemptState
from jobs.models import Attempt, Job
from tenants.models import Tenant

#: States of attempts that always have an error code (``handlers.outcome``).
WITH_CODE = (AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST, AttemptState.CANCELLED)

#: How long after a message was sent its attempts are looked for, and how far clocks may be apart.
CLAIMED_WITHIN, CLOCKS_APART = timedelta(minutes=10), timedelta(seconds=5)


def _uuid_of_version_7(text: str) -> UUID | None:
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if found.version == 7 else None


def _went_wrong(request: HttpRequest) -> bool:
    """Whether the list is asked for attempts that have an error code."""
    return bool(request.GET.get("error_code", "").strip()) or request.GET.get("state__exact") in WITH_CODE


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin, WalkedAdmin):
    of_history = True
    tenant_path = "tenant_id"
    list_display = (
        "started",
        "shown_state",
        "job_name",
        "tenant_slug",
        "number",
        "trigger_short",
        "worker",
        "took",
        "error",
        "http",
    )
    list_filter = (
        TenantOfAttempts,
        AttemptTypeFilter,
        ("state", ChoicesDropdownFilter),
        AttemptErrorFilter,
        HttpStatusFilter,
        MadeWithin,
        MadeSince,
        MadeUntil,
    )
    empty = "No attempt has been made yet."
    search_fields = ("id",)
    search_help_text = "Exact id of an attempt, a trigger, a job or a Celery task"
    found_by = ("id", "trigger_id", "job_id")
    veiled = ("excerpt", "shown_output")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("shown_state", "number", "fence"),
                    ("started", "finished", "took"),
                    ("trigger_cell", "job_cell", "worker"),
                    ("message", "claimed_with"),
                )
            },
        ),
        (
            "Outcome",
            {
                "fields": (
                    ("error_code", "error_class", "http"),
                    "error_message",
                    "excerpt",
                    "shown_traceback",
                    "shown_output",
                )
            },
        ),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """As everywhere, and by the id of the Celery task that carried the attempts, as Flower shows it."""
        found, distinct = super().get_search_results(request, queryset, search_term)
        task_id = _uuid_of_version_7(search_term.strip())
        if task_id is None or found.order_by().exists():
            return found, distinct
        # No index has these ids, but they tell when they were made, and so do the attempts' ids.
        made_at = datetime.fromtimestamp((task_id.int >> 80) / 1000, UTC)
        since, until = made_at - CLOCKS_APART, made_at + CLAIMED_WITHIN
        near = queryset.filter(
            started_at__range=(since, until), id__gte=first_id_since(since), id__lt=first_id_since(until)
        )
        return near.filter(celery_task_id=str(task_id)), distinct

    def walk(self, request: HttpRequest) -> Walk:
        return Walk(self._walked(request), by_tenant=False)

    def _walked(self, request: HttpRequest) -> QuerySet[Attempt]:
        """For a tenant, an index leads only to the attempts that went wrong; all others are sifted."""
        slug = request.GET.get("tenant", "").strip()
        if not slug or not _went_wrong(request):
            return Attempt.objects.all()
        tenant_id = Tenant.objects.filter(slug=slug).values_list("id", flat=True).first()
        return Attempt.objects.exclude(error_code="").filter(tenant_id=tenant_id or 0)

    def of_tab(self, request: HttpRequest, rows: QuerySet[Attempt]) -> QuerySet[Attempt]:
        return rows.exclude(error_code="") if _went_wrong(request) else rows

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        jobs = Job.with_hidden.in_bulk({attempt.job_id for attempt in rows})
        tenants = Tenant.objects.in_bulk({attempt.tenant_id for attempt in rows})
        for attempt in rows:
            attempt.job, attempt.tenant = jobs.get(attempt.job_id), tenants.get(attempt.tenant_id)

    @admin.display(description="job")
    def job_name(self, attempt: Any) -> str:
        return work_link(attempt.job) if attempt.job else str(attempt.job_id)

    @admin.display(description="tenant")
    def tenant_slug(self, attempt: Any) -> str:
        return attempt.tenant.slug if attempt.tenant else str(attempt.tenant_id)

    @admin.display(description="trigger")
    def trigger_short(self, attempt: Attempt) -> str:
        return trigger_link(attempt.trigger_id, f"…{str(attempt.trigger_id)[-8:]}")

    @admin.display(description="started")
    def started(self, attempt: Attempt) -> str:
        return instant_cell(attempt.started_at)

    @admin.display(description="finished")
    def finished(self, attempt: Attempt) -> str:
        return instant_cell(attempt.finished_at)

    @admin.display(description="state")
    def shown_state(self, attempt: Attempt) -> str:
        return state_label(attempt.state)

    @admin.display(description="trigger")
    def trigger_cell(self, attempt: Attempt) -> str:
        return trigger_link(attempt.trigger_id, str(attempt.trigger_id))

    @admin.display(description="job")
    def job_cell(self, attempt: Attempt) -> str:
        job = Job.with_hidden.filter(id=attempt.job_id).first()
        return work_link(job) if job else str(attempt.job_id)

    @admin.display(description="duration")
    def took(self, attempt: Attempt) -> str:
        return duration_cell(attempt.duration)

    @admin.display(description="error")
    def error(self, attempt: Attempt) -> str:
        return attempt.error_code

    @admin.display(description="HTTP", empty_value="-")
    def http(self, attempt: Attempt) -> int | None:
        return attempt.http_status

    @admin.display(description="Celery message", empty_value="-")
    def message(self, attempt: Attempt) -> str | None:
        if not attempt.celery_task_id:
            return None
        return format_html(
            '{} · <a class="text-link" href="{}" target="_blank">Flower</a> · '
            '<a class="text-link" href="{}">result</a>',
            attempt.celery_task_id,
            flower_url(attempt.celery_task_id),
            result_url(attempt.celery_task_id),
        )

    @admin.display(description="response excerpt")
    def excerpt(self, attempt: Attempt) -> str:
        return text_cell(attempt.response_excerpt)

    @admin.display(description="traceback")
    def shown_traceback(self, attempt: Attempt) -> str:
        return text_cell(attempt.traceback)

    @admin.display(description="output")
    def shown_output(self, attempt: Attempt) -> str:
        return text_cell(attempt.output)

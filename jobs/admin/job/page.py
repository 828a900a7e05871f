"""Jobs: create, edit, pause, resume, cancel, run now, delete. Every write is one of ``jobs.actions.jobs``.

Deleted jobs are out of the list unless asked for; their pages stay, because their history does. A job that has ended
cannot be edited and is shown as the API shows it.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse

from jobs.actions import definition as definitions
from jobs.admin.editing.layout import CONDITIONAL, fieldsets
from jobs.admin.job.bulk.buttons import InBulk
from jobs.admin.job.buttons import JobButtons
from jobs.admin.job.cockpit import cockpit
from jobs.admin.job.form import JobForm
from jobs.admin.job.list import JobList
from jobs.admin.job.times import next_instants
from jobs.admin.shared.cells import json_cell
from jobs.admin.shared.veil import HIDDEN, may_see_payloads
from jobs.core.instants import instant_text as iso_text
from jobs.core.states import JobStatus
from jobs.models import Job
from tenants.console.reach import form_within_reach

#: ``notify`` may hold credentials, too.
VEILED = ("payload", "notify")


@admin.register(Job)
class JobAdmin(InBulk, JobButtons, JobList):
    tenant_path = "tenant_id"
    trail_kind = "job"
    search_fields = ("id",)
    search_help_text = "Exact id, or the beginning of the name"
    fetched = ("tenant",)
    actions_detail = (
        "run_now",
        "backfill",
        "cancel_backfill",
        "pause",
        "resume",
        "restore",
        "cancel",
        "delete_for_good",
    )
    change_form_outer_before_template = "admin/jobs/job/overview.html"
    change_form_outer_after_template = "admin/jobs/job/below.html"
    change_form_before_template = "admin/jobs/job/form/conflict.html"
    conditional_fields = CONDITIONAL

    def get_form(
        self, request: HttpRequest, obj: Job | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm]:
        return form_within_reach(request.user, JobForm)

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            shown = "shown_definition" if may_see_payloads(request.user) else "veiled_definition"
            return ((None, {"fields": (shown,)}),)
        return fieldsets(obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> tuple[str, ...]:
        return ()

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: bool) -> None:
        """Do nothing: the form has written it."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """No for a job that has ended, and without the right to see payloads: the form shows them."""
        closed = isinstance(obj, Job) and (
            obj.deleted_at is not None
            or obj.status in (JobStatus.CANCELLED, JobStatus.COMPLETED)
            or not may_see_payloads(request.user)
        )
        return not closed and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Django's way would collect every trigger; the button ``delete_for_good`` does not."""
        return False

    def has_remove_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return bool(request.user.has_perm("jobs.delete_job"))  # type: ignore[union-attr]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if kwargs.get("obj") is not None:
            context["overview"] = cockpit(kwargs["obj"])
            failure = context["overview"]["failure"]
            if failure and failure["answer"] and not may_see_payloads(request.user):
                failure["answer"] = HIDDEN
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="definition")
    def shown_definition(self, job: Job) -> str:
        return json_cell(self._definition(job))

    @admin.display(description="definition")
    def veiled_definition(self, job: Job) -> str:
        return json_cell(self._definition(job) | dict.fromkeys(VEILED, HIDDEN))

    @staticmethod
    def _definition(job: Job) -> dict[str, Any]:
        instants, _ = next_instants(job, now=job.now, limit=1)  # type: ignore[attr-defined]
        # The column runs ahead by the look-ahead: the next firing may have its trigger already.
        return definitions.representation(job) | {"next_fire_at": iso_text(instants[0]) if instants else None}

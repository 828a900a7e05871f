"""Workflows: their graphs, versions and last runs, and a button that runs one now. Only the API edits them."""

import json
from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.actions.workflows import runs as actions
from jobs.admin.shared.cells import NOTHING, id_cell, instant_cell, json_cell, moment_cell, state_label
from jobs.admin.shared.filters import DeletedFilter, TenantFilter
from jobs.admin.shared.lists import ReadOnlyAdmin, is_id
from jobs.admin.shared.walks import Walk, WalkedAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.admin.workflows import rows
from jobs.admin.workflows.dialogs import RunForm
from jobs.admin.workflows.progress import run_label
from jobs.models import Workflow, WorkflowRun, WorkflowVersion
from jobs.selection.workflows import named_workflows
from jobs.store.console.lists import OF_ALL
from tenants.clock import DatabaseNow, database_now

MAX_RUNS, MAX_VERSIONS = 10, 20
#: So much of a definition is shown at most; it may have megabytes.
MAX_SHOWN = 64 * 1024


@admin.register(Workflow)
class WorkflowAdmin(ReadOnlyAdmin, WalkedAdmin, OperableAdmin):
    tenant_path = "tenant_id"
    trail_kind = "workflow"
    list_display = ("name", "tenant", "shown_version", "tasks", "last_state", "last_begun")
    list_filter = (("tenant", TenantFilter), DeletedFilter)
    search_fields = ("id",)
    search_help_text = "Exact id, or the beginning of the name"
    fetched = ("tenant",)
    empty = "There are no workflows yet."
    veiled = ("shown_definition",)
    actions_detail = ("run_now",)
    change_form_outer_before_template = "admin/jobs/workflow/graph.html"
    change_form_outer_after_template = "admin/trail_link.html"
    fieldsets = (
        (None, {"fields": ("shown_id", ("name", "tenant"), ("made", "edited"))}),
        ("Definition", {"classes": ("collapse",), "fields": ("shown_definition",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workflow]:
        """Workflows, each with its number of tasks, its last run and the database's clock: one index look-up a row."""
        present = WorkflowVersion.objects.filter(workflow_id=OuterRef("id"), number=OuterRef("version"))
        last = WorkflowRun.objects.filter(workflow_id=OuterRef("id")).order_by("-id")
        rows: QuerySet[Workflow] = (
            super()
            .get_queryset(request)
            .annotate(
                now=DatabaseNow(),
                task_count=Subquery(present.values("task_count")[:1]),
                last_run_id=Subquery(last.values("id")[:1]),
            )
        )
        return rows

    def walk(self, request: HttpRequest) -> Walk:
        workflows = Workflow.objects.all()
        if self.tenant_of(request) is not None and request.GET.get("deleted") != "1":
            return Walk(workflows.filter(deleted_at__isnull=True))
        return Walk(workflows, sifts=True, by_tenant=False)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By id, or by the beginning of the name, tenant by tenant: names are indexed so."""
        text = search_term.strip().replace("\0", "")
        if not text or is_id(text):
            return super().get_search_results(request, queryset, search_term)
        named = named_workflows(text, tenant_ids=self.tenants_of(request))
        return queryset.filter(id__in=list(named.values_list("id", flat=True)[:OF_ALL])), False

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add the last run of each."""
        runs = WorkflowRun.objects.defer("input").in_bulk([row.last_run_id for row in rows])
        for row in rows:
            row.last_run = runs.get(row.last_run_id)

    @button("Run now", asks="One run of the present version begins at once.", icon="play_arrow", form=RunForm)
    def run_now(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        workflow, given = self.row(request, object_id), form.cleaned_data["input"]
        return self.carry_out(
            request,
            workflow,
            lambda: actions.run_workflow(tenant=workflow.tenant, workflow_id=workflow.id, run_input=given),
            done=f"A run of {workflow.name} begins.",
            leads_to=lambda run: reverse("admin:jobs_workflowrun_change", args=[run.id]),
        )

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        workflow = self.get_object(request, object_id)
        living = workflow is not None and workflow.deleted_at is None
        return super().get_actions_detail(request, object_id) if living else []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        workflow = kwargs["obj"]
        version = _version(workflow, request.GET.get("version", ""))
        context["graph"] = rows.of_version(version) | _about(workflow, version)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="id")
    def shown_id(self, workflow: Workflow) -> str:
        return id_cell(workflow.id)

    @admin.display(description="version")
    def shown_version(self, workflow: Workflow) -> SafeString | int:
        return state_label("deleted") if workflow.deleted_at else workflow.version

    @admin.display(description="tasks")
    def tasks(self, workflow: Any) -> int | str:
        """Retention may have dropped the version of a deleted workflow already."""
        return NOTHING if workflow.task_count is None else workflow.task_count

    @admin.display(description="last run")
    def last_state(self, workflow: Any) -> str:
        return run_label(workflow.last_run) if workflow.last_run else NOTHING

    @admin.display(description="begun")
    def last_begun(self, workflow: Any) -> str:
        return moment_cell(workflow.last_run.created_at, now=workflow.now) if workflow.last_run else NOTHING

    @admin.display(description="created")
    def made(self, workflow: Workflow) -> str:
        return instant_cell(workflow.created_at)

    @admin.display(description="edited")
    def edited(self, workflow: Workflow) -> str:
        return instant_cell(workflow.updated_at)

    @admin.display(description="definition")
    def shown_definition(self, workflow: Workflow) -> str:
        """The present definition, as the API takes it."""
        definition = _version(workflow, "").definition
        size = len(json.dumps(definition))
        if size > MAX_SHOWN:
            return f"{size:,} bytes, too long to show here: GET /api/v1/workflows/{workflow.id} has them."
        return json_cell(definition)


def _version(workflow: Workflow, number: str) -> WorkflowVersion:
    """The version of that number, the present one by default. Raises ``Http404``."""
    wanted = int(number) if number.isascii() and number.isdecimal() and len(number) < 7 else workflow.version
    found = WorkflowVersion.objects.filter(workflow=workflow, number=wanted).first()
    if found is None:
        raise Http404("There is no such version of this workflow.")
    return found


def _about(workflow: Workflow, version: WorkflowVersion) -> dict[str, Any]:
    """The workflow's last runs and versions, beside the graph of one of these."""
    now = database_now()
    runs = WorkflowRun.objects.filter(workflow=workflow).defer("input").order_by("-id")[:MAX_RUNS]
    versions = WorkflowVersion.objects.filter(workflow=workflow).defer("definition")
    listed = list(versions.order_by("-number")[:MAX_VERSIONS])
    numbers = {each.id: each.number for each in listed}
    on_failure = "starts only tasks that handle failures" if version.halts else "goes on with all other tasks"
    most = f"; at most {version.max_parallel:,} tasks at once" if version.max_parallel else ""
    return {
        "number": version.number,
        "is_present": version.number == workflow.version,
        "task_count": version.task_count,
        "rule": f"After a failure a run {on_failure}{most}.",
        "max_drawn": rows.MAX_DRAWN,
        "max_edges": rows.MAX_EDGES,
        "runs": [
            {
                "url": reverse("admin:jobs_workflowrun_change", args=[run.id]),
                "begun": instant_cell(run.created_at),
                "away": moment_cell(run.created_at, now=now),
                "label": run_label(run),
                "version": numbers.get(run.version_id, ""),
            }
            for run in runs
        ],
        "runs_url": f"{reverse('admin:jobs_workflowrun_changelist')}?workflow__id__exact={workflow.id}",
        "versions": [
            {"number": each.number, "tasks": each.task_count, "made": moment_cell(each.created_at, now=now)}
            for each in listed
        ],
    }

"""Runs of workflows: seen while they go on, paused, resumed, cancelled and retried."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter
from unfold.enums import ActionVariant

from jobs.actions.workflows import answers
from jobs.actions.workflows import runs as actions
from jobs.admin.shared.cells import NOTHING, duration_cell, id_cell, instant_cell, json_cell
from jobs.admin.shared.filters import MadeSince, MadeUntil, MadeWithin, TenantFilter
from jobs.admin.shared.lists import ReadOnlyAdmin
from jobs.admin.shared.walks import WalkedAdmin
from jobs.admin.shared.writes import OperableAdmin, button
from jobs.admin.workflows import task
from jobs.admin.workflows.dialogs import AnswerForm, RetryForm, SignalForm
from jobs.admin.workflows.progress import progress, run_label, standing
from jobs.models import TaskRun, Workflow, WorkflowRun, WorkflowVersion

#: The buttons that can succeed, by how the run stands.
FITTING = {
    "running": ("pause", "cancel"),
    "paused": ("resume", "cancel"),
    "cancelling": ("cancel",),
    "succeeded": ("retry",),
    "failed": ("retry",),
    "cancelled": ("retry",),
}


class WorkflowFilter(AutocompleteSelectFilter):
    #: By the index ``workflowrun_of_workflow``.
    leads = frozenset({"id"})

    def in_words(self, value: str) -> str:
        try:
            workflow_id = UUID(value)
        except ValueError:
            return value
        return Workflow.objects.filter(id=workflow_id).values_list("name", flat=True).first() or value


@admin.register(WorkflowRun)
class WorkflowRunAdmin(ReadOnlyAdmin, WalkedAdmin, OperableAdmin):
    of_history = True
    tenant_path = "tenant_id"
    list_display = ("begun", "workflow_cell", "shown_version", "tenant", "shown_state", "took", "ended")
    list_filter = (
        ("tenant", TenantFilter),
        ("workflow", WorkflowFilter),
        ("state", ChoicesDropdownFilter),
        MadeWithin,
        MadeSince,
        MadeUntil,
    )
    search_fields = ("id",)
    search_help_text = "Exact id of a run or a workflow"
    found_by = ("id", "workflow_id")
    fetched = (
        "tenant",
        "workflow",
        Prefetch("version", WorkflowVersion.objects.defer("definition")),  # may have megabytes
    )
    empty = "No workflow has run yet."
    veiled = ("shown_input",)
    #: The panel of the task that waits offers the last three.
    actions_detail = ("pause", "resume", "cancel", "retry", "approve", "refuse", "signal")
    change_form_outer_before_template = "admin/jobs/workflowrun/run.html"
    change_form_outer_after_template = "admin/trail_link.html"
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "shown_id",
                    ("workflow_cell", "shown_version", "tenant"),
                    ("scheduled", "begun", "ended"),
                    "outer_run",
                    "shown_input",
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkflowRun]:
        rows: QuerySet[WorkflowRun] = super().get_queryset(request).defer("input")
        return rows

    @button(
        "Pause",
        asks="No further task starts until the run is resumed; tasks that have started go on.",
        icon="pause",
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.pause_run, done="Paused.")

    @button("Resume", asks="Ready tasks of the run start.", icon="resume")
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.resume_run, done="Resumed.")

    @button(
        "Cancel",
        asks="No further task starts, and running tasks are asked to stop.",
        icon="cancel",
        variant=ActionVariant.DANGER,
        confirm="Cancel the run",
        dismiss="Keep it",
    )
    def cancel(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._act(request, object_id, actions.cancel_run, done="Cancelled, or asked to stop.")

    @button(
        "Retry",
        asks="It goes on from the tasks that did not succeed, or from those you choose. Other results are "
        "kept.",
        icon="replay",
        form=RetryForm,
        confirm="Retry the run",
    )
    def retry(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        tasks, skip = form.cleaned_data["tasks"], form.cleaned_data["skip"]
        done = f"Goes on from {', '.join(tasks)}." if tasks else "Goes on from the unsuccessful tasks."
        if skip:
            done = f"Goes on without {', '.join(skip)}."
        return self._act(request, object_id, actions.retry_run, done=done, tasks=tasks, skip=skip)

    @button(
        "Approve",
        asks="The task succeeds, and the run goes on. Your name and the comment are its result.",
        icon="check",
        form=AnswerForm,
        confirm="Approve it",
    )
    def approve(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._decide(request, object_id, form, approved=True, done="Approved.")

    @button(
        "Refuse",
        asks="The task is cancelled, and tasks that need it are skipped.",
        icon="block",
        variant=ActionVariant.DANGER,
        form=AnswerForm,
        confirm="Refuse it",
    )
    def refuse(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        return self._decide(request, object_id, form, approved=False, done="Refused.")

    @button(
        "Send the signal",
        asks="All tasks of the run that wait for this signal succeed, and the run goes on.",
        icon="sensors",
        form=SignalForm,
    )
    def signal(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        given = {name: form.cleaned_data[name] for name in ("name", "payload")}
        return self._act(
            request, object_id, answers.signal, done=f"Sent the signal {given['name']}.", **given
        )

    def _decide(
        self, request: HttpRequest, object_id: str, form: Any, *, approved: bool, done: str
    ) -> HttpResponseBase:
        given = {name: form.cleaned_data[name] for name in ("task", "comment")}
        return self._act(request, object_id, answers.decide, done=done, approved=approved, **given)

    def _act(
        self, request: HttpRequest, object_id: str, act: Callable[..., Any], *, done: str, **given: Any
    ) -> HttpResponseBase:
        run = self.row(request, object_id)
        return self.carry_out(request, run, lambda: act(tenant=run.tenant, run_id=run.id, **given), done=done)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        run = self.get_object(request, object_id)
        fitting = FITTING[standing(run)] if run is not None else ()
        if run is not None and run.workflow.deleted_at:
            fitting = tuple(name for name in fitting if name != "retry")
        return [each for each in super().get_actions_detail(request, object_id) if each.path in fitting]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        run = kwargs["obj"]
        query = urlencode({"kind": "workflow", "object": run.workflow_id})
        context["progress"] = progress(run, only=request.GET.get("only", ""))
        if asked := request.GET.get("task"):
            context["told"] = task.told(request.user, run, asked)
        # The trail tells of a run under its workflow.
        context["trail_url"] = f"{reverse('admin:jobs_change_changelist')}?{query}"
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="id")
    def shown_id(self, run: WorkflowRun) -> str:
        return id_cell(run.id)

    @admin.display(description="begun")
    def begun(self, run: WorkflowRun) -> str:
        return instant_cell(run.created_at)

    @admin.display(description="scheduled for")
    def scheduled(self, run: WorkflowRun) -> str:
        return instant_cell(run.scheduled_for)

    @admin.display(description="ended")
    def ended(self, run: WorkflowRun) -> str:
        return instant_cell(run.finished_at)

    @admin.display(description="took")
    def took(self, run: WorkflowRun) -> str:
        return duration_cell(run.finished_at - run.created_at if run.finished_at else None)

    @admin.display(description="state")
    def shown_state(self, run: WorkflowRun) -> str:
        return run_label(run)

    @admin.display(description="version")
    def shown_version(self, run: WorkflowRun) -> int:
        return run.version.number

    @admin.display(description="workflow")
    def workflow_cell(self, run: WorkflowRun) -> str:
        url = reverse("admin:jobs_workflow_change", args=[run.workflow_id])
        return format_html('<a class="text-link" href="{}">{}</a>', url, run.workflow.name)

    @admin.display(description="a task of")
    def outer_run(self, run: WorkflowRun) -> str:
        task = TaskRun.objects.filter(id=run.trigger_id) if run.trigger_id else TaskRun.objects.none()
        outer = task.values_list("run_id", flat=True).first()
        if outer is None:
            return NOTHING
        return format_html(
            '<a class="text-link" href="{}">{}</a>',
            reverse("admin:jobs_workflowrun_change", args=[outer]),
            outer,
        )

    @admin.display(description="input")
    def shown_input(self, run: WorkflowRun) -> str:
        return json_cell(run.input)

"""The dialogs of the buttons of workflows and runs. Each checks as the API does, by the same calls."""

from typing import Any
from uuid import UUID

from django import forms
from django.db.models import Model, QuerySet
from django.http import Http404
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminSelectMultipleWidget, UnfoldAdminTextInputWidget

from jobs.actions.workflows.answers import check_payload
from jobs.actions.workflows.runs import check_input
from jobs.admin.editing.inputs import JsonField
from jobs.core.errors import InvalidInput
from jobs.core.workflows.states import RunState, TaskRunState
from jobs.models import TaskRun, Workflow, WorkflowRun, WorkflowTask
from jobs.shapes.workflow.run import ApprovalRequest
from tenants.console.reach import held_to_reach


def _complaint(error: InvalidInput) -> forms.ValidationError:
    return forms.ValidationError([text for texts in error.errors.values() for text in texts])


class _OfRowForm(BaseDialogForm):
    """A dialog about one row that is within reach."""

    rows: QuerySet[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = self._find()

    def _find(self) -> Any:
        try:
            wanted = UUID(str(self.object_id))
        except ValueError:
            raise Http404 from None
        found: Model | None = held_to_reach(self.request.user, self.rows.all()).filter(id=wanted).first()
        if found is None:
            raise Http404
        return found


class RunForm(_OfRowForm):
    rows = Workflow.objects.filter(deleted_at=None).select_related("tenant")
    input = JsonField(
        rows=8,
        empty="null",
        help_text="Input of the run: any JSON; tasks take it as workflow.input. Empty: null.",
    )

    def clean_input(self) -> Any:
        given = self.cleaned_data["input"]
        try:
            check_input(self.row.tenant, given)
        except InvalidInput as error:
            raise _complaint(error) from None
        return given


class AnswerForm(BaseDialogForm):
    """The answer to the approval that the task in the address asks for."""

    task = forms.CharField(widget=forms.HiddenInput)
    comment = forms.CharField(required=False, widget=UnfoldAdminTextInputWidget)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].initial = self.request.GET.get("task")

    def clean_comment(self) -> str:
        try:
            return ApprovalRequest.read({"comment": self.cleaned_data["comment"]}).comment
        except InvalidInput as error:
            raise _complaint(error) from None


class SignalForm(BaseDialogForm):
    """The payload of the signal in the address."""

    name = forms.CharField(widget=forms.HiddenInput)
    payload = JsonField(
        rows=8,
        empty="null",
        help_text="Any JSON: it becomes the result of the tasks that wait for the signal. Empty: null.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].initial = self.request.GET.get("name")

    def clean_payload(self) -> Any:
        given = self.cleaned_data["payload"]
        try:
            check_payload(given)
        except InvalidInput as error:
            raise _complaint(error) from None
        return given


class RetryForm(_OfRowForm):
    """Offers the tasks of the run, each with its state; those in the address are chosen already."""

    rows = WorkflowRun.objects.defer("input")
    tasks = forms.MultipleChoiceField(
        label="From these tasks",
        required=False,
        widget=UnfoldAdminSelectMultipleWidget(attrs={"size": "8"}),
        help_text="They begin again, with all tasks downstream. None: all tasks that did not succeed.",
    )
    skip = forms.MultipleChoiceField(
        label="Without these failed tasks",
        required=False,
        widget=UnfoldAdminSelectMultipleWidget(attrs={"size": "4"}),
        help_text="They count as succeeded. If only these are chosen, no other failed task begins again.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Items of a map are task runs of the same task.
        of_tasks = TaskRun.objects.filter(run=self.row, item__isnull=True)
        states = dict(of_tasks.values_list("task", "state"))
        tasks = WorkflowTask.objects.filter(version_id=self.row.version_id).order_by("number")
        numbered = list(tasks.values_list("number", "key"))
        self.fields["tasks"].choices = [  # type: ignore[attr-defined]
            (key, f"{key} ({states.get(number, '')})") for number, key in numbered
        ]
        self.fields["skip"].choices = [  # type: ignore[attr-defined]
            (key, key) for number, key in numbered if states.get(number) == TaskRunState.FAILED
        ]
        self.fields["tasks"].initial = self.request.GET.getlist("tasks")

    def clean_tasks(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["tasks"]
        if not chosen and self.row.state == RunState.SUCCEEDED:
            raise forms.ValidationError("All tasks succeeded: choose the tasks that are to begin again.")
        return chosen

"""What lists of workflows and of their runs may be filtered by."""

from typing import Any

from django_filters import rest_framework as filters

from jobs.core.workflows.states import RunState
from jobs.models import Workflow, WorkflowRun
from jobs.models.fields import choices
from jobs.selection.filters import ListFilter, NameFilter
from jobs.shapes.job import MAX_NAME


class WorkflowFilter(ListFilter):
    name = NameFilter(max_length=MAX_NAME, label="The exact name.")

    class Meta:
        model = Workflow
        fields: tuple[str, ...] = ()

    def walking(self) -> dict[str, Any]:
        return self.given()


class WorkflowRunFilter(ListFilter):
    workflow = filters.UUIDFilter(field_name="workflow_id")
    state = filters.ChoiceFilter(choices=choices(RunState))

    class Meta:
        model = WorkflowRun
        fields: tuple[str, ...] = ()

    def walking(self) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if name == "workflow"}

"""The filters of lists of workflows and of their runs."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from jobs.core.workflows.states import RunState
from jobs.models import Workflow, WorkflowRun
from jobs.models.fields import choices
from jobs.selection.filters import LabelsFilter, ListFilter, NameFilter
from jobs.shapes.job import MAX_NAME

#: Names are in the order of their bytes: no name that begins with a prefix comes behind the prefix and this.
_LAST_CHARACTER = "\U0010ffff"


def named_workflows(prefix: str, *, tenant_ids: Iterable[int]) -> QuerySet[Workflow]:
    """Living workflows of these tenants whose names begin with ``prefix``: a range of an index for each tenant."""
    return Workflow.objects.filter(
        tenant_id__in=tenant_ids,
        deleted_at=None,
        name__gte=prefix,
        name__lt=f"{prefix}{_LAST_CHARACTER}",
    )


class _LabelsFilter(LabelsFilter):
    """Workflows with every label that is named: a tenant's are few enough to look at."""

    def filter(self, queryset: QuerySet[Any], value: dict[str, str]) -> QuerySet[Any]:
        return queryset.filter(labels__contains=value) if value else queryset


class WorkflowFilter(ListFilter):
    name = NameFilter(max_length=MAX_NAME, label="The exact name.")
    labels = _LabelsFilter(label="Such as env=prod,team=billing: workflows with all of these labels.")

    class Meta:
        model = Workflow
        fields: tuple[str, ...] = ()

    def walking(self) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if name == "name"}


class WorkflowRunFilter(ListFilter):
    workflow = filters.UUIDFilter(field_name="workflow_id")
    state = filters.ChoiceFilter(choices=choices(RunState))

    class Meta:
        model = WorkflowRun
        fields: tuple[str, ...] = ()

    def walking(self) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if name == "workflow"}


class UnfinishedRunFilter(WorkflowRunFilter):
    """Filters of runs that have not ended. No index of a tenant has them alone."""

    state = filters.ChoiceFilter(choices=choices([RunState.RUNNING]))

    def sift(self) -> Callable[[QuerySet[Any]], QuerySet[Any]]:
        return lambda rows: rows.filter(state=RunState.RUNNING)


class RetriedRunFilter(WorkflowRunFilter):
    """Filters of runs that a retry lets go on: failed ones, unless cancelled ones are asked for."""

    state = filters.ChoiceFilter(choices=choices([RunState.FAILED, RunState.CANCELLED]))

    def sift(self) -> Callable[[QuerySet[Any]], QuerySet[Any]]:
        return lambda rows: rows.filter(state=self.given().get("state", RunState.FAILED))

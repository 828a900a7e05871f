"""What lists may be filtered by. A filter that cannot be understood is a 400 that names it, never an ignored one."""

from datetime import datetime
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from jobs.actions.fields import parse_instant
from jobs.core.errors import InvalidInput
from jobs.core.policies import Priority
from jobs.core.pull import MARK
from jobs.core.schedule import EARLIEST, LATEST
from jobs.core.states import REASONS, JobStatus, TriggerState
from jobs.models import Job, SkippedRange, Trigger

_REASONS = tuple(reason for reasons in REASONS.values() for reason in reasons)


class _InstantField(forms.CharField):
    """An RFC 3339 time within the years that are stored."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            # A + in a query string arrives as a blank.
            instant: datetime = parse_instant(text.replace(" ", "+"))
        except InvalidInput as error:
            raise forms.ValidationError(error.errors[""]) from None
        if not EARLIEST <= instant <= LATEST:
            raise forms.ValidationError("Must lie between 2000-01-01 and 2100-01-01.")
        return instant


class InstantFilter(filters.Filter):
    field_class = _InstantField


class JobTypeFilter(filters.CharFilter):
    """By the name its tenant knows a type by, whichever kind it is."""

    def filter(self, queryset: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if not value:
            return queryset
        name = self.field_name
        return queryset.filter(Q(**{name: value}) | Q(**{f"{name}__startswith": f"{value}{MARK}"}))


def _choices(values: Any) -> list[tuple[str, str]]:
    return [(str(value), str(value)) for value in values]


class JobFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=_choices(JobStatus))
    job_type = JobTypeFilter(max_length=63)
    priority = filters.ChoiceFilter(
        choices=_choices(priority.label for priority in Priority), method="by_label"
    )
    name = filters.CharFilter(max_length=200, label="The exact name.")

    class Meta:
        model = Job
        fields: tuple[str, ...] = ()

    def by_label(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(priority=int(Priority.from_label(value)))


class FiringFilter(filters.FilterSet):
    """Filters of triggers that make sense for the dead ones and for one job's alike."""

    job_type = JobTypeFilter(max_length=63)
    reason = filters.ChoiceFilter(choices=_choices(_REASONS))
    scheduled_for_after = InstantFilter(
        field_name="scheduled_for", lookup_expr="gte", label="This instant or later."
    )
    scheduled_for_before = InstantFilter(
        field_name="scheduled_for", lookup_expr="lt", label="Before this instant."
    )

    class Meta:
        model = Trigger
        fields: tuple[str, ...] = ()


class JobTriggerFilter(FiringFilter):
    state = filters.ChoiceFilter(choices=_choices(TriggerState))


class SkippedRangeFilter(filters.FilterSet):
    """``JobTriggerFilter`` as it applies to a range: the same parameters, for the firings it stands for."""

    job_type = JobTypeFilter(field_name="job__job_type")
    reason = filters.CharFilter()
    scheduled_for_after = InstantFilter(field_name="until_at", lookup_expr="gte")
    scheduled_for_before = InstantFilter(field_name="from_at", lookup_expr="lt")
    state = filters.CharFilter(method="by_state")

    class Meta:
        model = SkippedRange
        fields: tuple[str, ...] = ()

    def by_state(self, queryset: QuerySet[SkippedRange], name: str, value: str) -> QuerySet[SkippedRange]:
        return queryset if value == TriggerState.SKIPPED else queryset.none()


class DeadLetterFilter(FiringFilter):
    job = filters.UUIDFilter(field_name="job_id")


class TriggerFilter(DeadLetterFilter, JobTriggerFilter):
    pass

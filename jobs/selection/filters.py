"""The filters of lists. A filter that cannot be understood gets a 400 that names it, and is never ignored."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST, OUT_OF_BOUNDS, parse_instant
from jobs.core.labels import SELECTOR, read_selector
from jobs.core.policies import Priority
from jobs.core.pull import MARK
from jobs.core.schedule import ScheduleType
from jobs.core.states import PHASES, UNFINISHED, AttemptState, JobStatus, TriggerState
from jobs.models import Attempt, Job, JobLabel, SkippedRange, Trigger
from jobs.models.fields import first_id_since
from jobs.selection.columns import called_host, of_last_attempt
from jobs.shapes.job import MAX_NAME
from jobs.shapes.operations import EVERY_REASON, IDS

#: The most jobs that one filter may name.
MAX_IDS = 100
#: States of attempts that always have an error code (``handlers.outcome``).
_WITH_CODE = (AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST, AttemptState.CANCELLED)
#: How far a worker's clock may be from the database's for a filter by time to find all of its attempts.
_CLOCKS_APART = timedelta(minutes=5)
_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"


def refuse_empty(given: Mapping[str, Any], *, known: Collection[str]) -> None:
    """Raises ``InvalidInput`` for filters without a value: ``?job=$JOB`` would mean all where ``JOB`` is unset."""
    empty = [name for name in known if name in given and not str(given[name]).strip()]
    if empty:
        raise InvalidInput(dict.fromkeys(empty, "Is empty; leave it out, or give a value to look for."))


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
            raise forms.ValidationError(OUT_OF_BOUNDS)
        return instant


@extend_schema_field(OpenApiTypes.DATETIME)
class InstantFilter(filters.Filter):
    field_class = _InstantField


@extend_schema_field({"type": "string", "maxLength": 63, "pattern": _SOMETHING})
class JobTypeFilter(filters.CharFilter):
    """By the name that its tenant has for a type, of any kind."""

    def filter(self, queryset: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if not value:
            return queryset
        return queryset.filter(_is_of_type(value, self.field_name))


def _is_of_type(job_type: str, column: str = "job_type") -> Q:
    return Q(**{column: job_type}) | Q(**{f"{column}__startswith": f"{job_type}{MARK}"})


def _choices(values: Any) -> list[tuple[str, str]]:
    return [(str(value), str(value)) for value in values]


def _since(field_name: str, happened: str) -> InstantFilter:
    return InstantFilter(
        field_name=field_name, lookup_expr="gte", label=f"{happened} at this instant or later."
    )


def _until(field_name: str, happened: str) -> InstantFilter:
    return InstantFilter(field_name=field_name, lookup_expr="lt", label=f"{happened} before this instant.")


class _LabelsField(forms.CharField):
    """``env=prod,team=billing`` as a dict; empty for nothing."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        try:
            return read_selector(text) if text else {}
        except InvalidInput as error:
            raise forms.ValidationError(error.errors[""]) from None


@extend_schema_field({"type": "string", "pattern": SELECTOR})
class LabelsFilter(filters.Filter):
    """Jobs with every label that is named, each found through the labels' own table."""

    field_class = _LabelsField

    def filter(self, queryset: QuerySet[Job], value: dict[str, str]) -> QuerySet[Job]:
        tenant_id = self.parent.tenant_id
        for key, word in value.items():
            having = JobLabel.objects.filter(tenant_id=tenant_id, key=key, value=word)
            queryset = queryset.filter(id__in=having.values("job_id"))
        return queryset


class _IdsField(forms.CharField):
    """``<uuid>,<uuid>`` as a list; empty for nothing."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        parts = text.split(",") if text else []
        if len(parts) > MAX_IDS:
            raise forms.ValidationError(f"Must name at most {MAX_IDS} ids.")
        try:
            return [UUID(part.strip()) for part in parts]
        except ValueError:
            raise forms.ValidationError("Must be ids of jobs, UUIDs, separated by commas.") from None


@extend_schema_field({"type": "string", "pattern": IDS})
class IdsFilter(filters.Filter):
    """The rows of the named ids."""

    field_class = _IdsField

    def filter(self, queryset: QuerySet[Any], value: list[UUID]) -> QuerySet[Any]:
        return queryset.filter(id__in=value) if value else queryset


@extend_schema_field({"type": "string", "maxLength": MAX_NAME, "pattern": _SOMETHING})
class NameFilter(filters.CharFilter):
    """A name, or how it begins."""


@extend_schema_field({"type": "string", "maxLength": 64, "pattern": _SOMETHING})
class ErrorCodeFilter(filters.CharFilter):
    """The whole of an error code."""


@extend_schema_field({"type": "string", "maxLength": 255, "pattern": _SOMETHING})
class TargetFilter(filters.CharFilter):
    """A host, with the port where it is not the scheme's own."""


class _HttpStatusField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if text and not re.fullmatch("[1-5][0-9][0-9]", text, re.ASCII):
            raise forms.ValidationError("Must be a whole number from 100 to 599.")
        return int(text) if text else None


@extend_schema_field({"type": "integer", "minimum": 100, "maximum": 599})
class HttpStatusFilter(filters.Filter):
    field_class = _HttpStatusField


class ListFilter(filters.FilterSet):
    """Filters of a list that is read page by page, in two kinds.

    Filters that an index leads to in the list's order may ``walk``: the page is found at once, however few rows match.
    The others ``sift`` the rows that the walk comes by; the paginator bounds their number.
    """

    #: The tenant whose rows are listed.
    tenant_id = 0
    #: Whether the list is in the order of ids, no matter what ``ordering`` says.
    by_id = False

    def walking(self) -> dict[str, Any]:
        """The given filters that walk, with their values; here none."""
        return {}

    def given(self) -> dict[str, Any]:
        """The filters that were given, with their values."""
        return {
            name: value for name, value in self.form.cleaned_data.items() if value not in (None, "", {}, [])
        }

    def walk(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self._apply(queryset, self.walking())

    def sift(self) -> Callable[[QuerySet[Any]], QuerySet[Any]] | None:
        """A function that applies the filters that do not walk; None when there are none."""
        rest = {name: value for name, value in self.given().items() if self.walking().get(name) != value}
        return (lambda queryset: self._apply(queryset, rest)) if rest else None

    def _apply(self, queryset: QuerySet[Any], values: dict[str, Any]) -> QuerySet[Any]:
        for name, value in values.items():
            queryset = self.filters[name].filter(queryset, value)
        return queryset


class JobFilter(ListFilter):
    ids = IdsFilter(label="Ids of jobs, separated by commas, at most 100.")
    status = filters.ChoiceFilter(choices=_choices(JobStatus))
    job_type = JobTypeFilter(max_length=63)
    priority = filters.ChoiceFilter(
        choices=_choices(priority.label for priority in Priority), method="by_label"
    )
    schedule_type = filters.ChoiceFilter(choices=_choices(ScheduleType))
    name = NameFilter(max_length=MAX_NAME, label="The exact name.")
    name_prefix = NameFilter(
        max_length=MAX_NAME,
        method="by_prefix",
        label="Beginning of the name; the list is then in the order of names.",
    )
    target = TargetFilter(max_length=255, label="The host that the job calls.")
    labels = LabelsFilter(label="Only jobs with all of these labels, such as env=prod,team=billing.")
    created_after = _since("created_at", "Created")
    created_before = _until("created_at", "Created")
    updated_after = _since("updated_at", "Updated")
    updated_before = _until("updated_at", "Updated")

    class Meta:
        model = Job
        fields: tuple[str, ...] = ()

    @property
    def by_name(self) -> bool:
        """Whether the list is in the order of names."""
        default = "name" if self.data.get("name_prefix") else ""
        return str(self.data.get("ordering", default)).endswith("name")

    def walking(self) -> dict[str, Any]:
        given = self.given()
        if "ids" in given:
            return {"ids": given["ids"]}
        leading = ("name",) if self.by_id else ("name", "name_prefix")
        found: dict[str, Any] = {name: given[name] for name in leading if name in given}
        if found or (self.by_name and not self.by_id):
            return found
        if "labels" in given:
            # One label leads the way; it is unknown which of several is rare.
            key, value = next(iter(given["labels"].items()))
            return {"labels": {key: value}}
        if given.get("status") not in (None, JobStatus.ACTIVE):
            return {"status": given["status"]}
        return {}

    def by_label(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(priority=int(Priority.from_label(value)))

    def by_prefix(self, queryset: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(name__startswith=value)


class FiringFilter(ListFilter):
    """Filters that make sense for dead triggers and for the triggers of one job alike."""

    job_type = JobTypeFilter(max_length=63)
    reason = filters.ChoiceFilter(choices=_choices(EVERY_REASON))
    scheduled_for_after = _since("scheduled_for", "Scheduled")
    scheduled_for_before = _until("scheduled_for", "Scheduled")

    class Meta:
        model = Trigger
        fields: tuple[str, ...] = ()


class JobTriggerFilter(FiringFilter):
    state = filters.ChoiceFilter(choices=_choices(TriggerState), method="by_state")

    def by_state(self, queryset: QuerySet[Trigger], name: str, value: str) -> QuerySet[Trigger]:
        """Filters by the phase, too, because indexes know the phase."""
        return queryset.filter(state=value, phase=PHASES[TriggerState(value)])

    def walking(self) -> dict[str, Any]:
        """All filters: a job has no more triggers than retention leaves, and each page says what became of its time."""
        return self.given()


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


class AttemptFilter(ListFilter):
    """All attempts of one job, or those of all jobs with an error code: an index leads to either, and to their time.

    An index of all attempts of a tenant would cost each claim more than it can spare.
    """

    state = filters.ChoiceFilter(choices=_choices(AttemptState))
    error_code = ErrorCodeFilter(max_length=64, label="Error code of the attempt, such as timeout.")
    http_status = HttpStatusFilter(label="HTTP status of the target's answer.")
    job_type = JobTypeFilter(max_length=63, method="by_type")
    job = filters.UUIDFilter(field_name="job_id")
    started_after = _since("started_at", "Started")
    started_before = _until("started_at", "Started")

    class Meta:
        model = Attempt
        fields: tuple[str, ...] = ()

    def walking(self) -> dict[str, Any]:
        return {name: value for name, value in self.given().items() if name == "job"}

    def walk(self, queryset: QuerySet[Attempt]) -> QuerySet[Attempt]:
        """All filters except the job sift as well. Those of time bound the ids generously: workers' clocks stamp ids.

        ``queryset`` has the attempts with an error code. Raises ``InvalidInput`` for a state without one, and no job.
        """
        given = self.given()
        if "job" in given:
            queryset = self._of_job(given["job"])
        elif given.get("state", _WITH_CODE[0]) not in _WITH_CODE:
            raise InvalidInput(
                {"state": f"Name a job, too: for all jobs only {', '.join(_WITH_CODE)} ones are listed."}
            )
        if "started_after" in given:
            queryset = queryset.filter(id__gte=first_id_since(given["started_after"] - _CLOCKS_APART))
        if "started_before" in given:
            queryset = queryset.filter(id__lt=first_id_since(given["started_before"] + _CLOCKS_APART))
        return queryset

    def _of_job(self, job_id: Any) -> QuerySet[Attempt]:
        """All attempts of a job are its tenant's. No row of a foreign job is looked at."""
        if not Job.objects.filter(tenant_id=self.tenant_id, id=job_id).exists():
            return Attempt.objects.none()
        return Attempt.objects.filter(job_id=job_id)

    def by_type(self, queryset: QuerySet[Attempt], name: str, value: str) -> QuerySet[Attempt]:
        """Looks up each row's trigger: a join might begin with all triggers of the type."""
        trigger = Trigger.objects.filter(_is_of_type(value), id=OuterRef("trigger_id"))
        return queryset.alias(of_type=Subquery(trigger.values("id")[:1])).filter(of_type__isnull=False)


class DeadLetterFilter(FiringFilter):
    job = filters.UUIDFilter(field_name="job_id")
    error_code = ErrorCodeFilter(max_length=64, method="by_error", label="Error code of the last attempt.")
    http_status = HttpStatusFilter(method="by_http_status", label="HTTP status of the target's last answer.")
    target = TargetFilter(max_length=255, method="by_target", label="The host that the job calls.")
    finished_after = _since("finished_at", "Finished")
    finished_before = _until("finished_at", "Finished")

    def walking(self) -> dict[str, Any]:
        """Triggers of one job are found by its own index, and sorted: they are no more than retention leaves."""
        return {name: value for name, value in self.given().items() if name == "job"}

    def by_error(self, queryset: QuerySet[Trigger], name: str, value: str) -> QuerySet[Trigger]:
        return queryset.alias(last_error=of_last_attempt("error_code")).filter(last_error=value)

    def by_http_status(self, queryset: QuerySet[Trigger], name: str, value: int) -> QuerySet[Trigger]:
        return queryset.alias(last_status=of_last_attempt("http_status")).filter(last_status=value)

    def by_target(self, queryset: QuerySet[Trigger], name: str, value: str) -> QuerySet[Trigger]:
        return queryset.alias(called=called_host()).filter(called=value)


class TriggerFilter(DeadLetterFilter):
    state = filters.ChoiceFilter(choices=_choices(TriggerState))


class UnfinishedFilter(DeadLetterFilter):
    """Filters of triggers that have not ended yet, and so have no reason. No index of a tenant has them alone."""

    #: An unfinished trigger has none of these.
    reason = None
    error_code: Any = None
    http_status: Any = None
    target: Any = None
    finished_after: Any = None
    finished_before: Any = None
    state = filters.ChoiceFilter(choices=_choices(state for state in TriggerState if state in UNFINISHED))

    def sift(self) -> Callable[[QuerySet[Any]], QuerySet[Any]]:
        rest = super().sift()
        phases = sorted({PHASES[state] for state in UNFINISHED})
        return lambda rows: (rest(rows) if rest else rows).filter(phase__in=phases)

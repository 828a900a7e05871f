"""Filters of the lists of firings and jobs. An index serves one that ``leads``; the others sift (``shared.walks``)."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.contrib.admin.options import ModelAdmin as DjangoModelAdmin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter, TextFilter

from jobs.admin.shared.lists import CreatedWithin, words
from jobs.admin.shared.walks import refuse_filter
from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST
from jobs.core.labels import read_selector
from jobs.core.states import DEAD_REASONS, REASONS
from jobs.handlers import registry
from jobs.models import Attempt, JobLabel, Trigger
from jobs.models.fields import first_id_since
from jobs.selection.columns import called_host, of_last_attempt
from tenants.clock import database_now
from tenants.models import Tenant

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+ -]\d\d:\d\d)?", re.ASCII)


class TenantFilter(AutocompleteSelectFilter):
    leads = frozenset({"tenant"})

    def in_words(self, value: str) -> str:
        if not value.isdecimal() or len(value) > 18:
            return value
        return Tenant.objects.filter(id=value).values_list("slug", flat=True).first() or value


class DeletedFilter(DropdownFilter):
    """Shows living rows by default."""

    title = "deleted"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [("1", "Only deleted ones")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(deleted_at__isnull=self.value() != "1")


class JobTypeFilter(DropdownFilter):
    title = "job type"
    parameter_name = "job_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(job_type.name for job_type in registry.all_types())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(job_type=self.value()) if self.value() else queryset


class AttemptTypeFilter(JobTypeFilter):
    """It asks for each row's trigger: a join might begin with all triggers of the type."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        trigger = Trigger.objects.filter(id=OuterRef("trigger_id")).values("job_type")[:1]
        return queryset.alias(job_type=Subquery(trigger)).filter(job_type=self.value())


class ReasonFilter(DropdownFilter):
    title = "reason"
    parameter_name = "reason"
    reasons: Iterable[str] = tuple(reason for reasons in REASONS.values() for reason in reasons)

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(self.reasons)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


class DeadReasonFilter(ReasonFilter):
    reasons = DEAD_REASONS


class LabelFilter(TextFilter):
    """Filters triggers by the labels of their jobs: one look-up in the labels for each row of the walk."""

    title = "label, such as env=prod"
    parameter_name = "label"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not (self.value() or "").strip():
            return queryset
        try:
            wanted = read_selector(self.value().strip())
        except InvalidInput as error:
            return refuse_filter(request, queryset, " ".join(error.errors[""]))
        return self.having(request, queryset, wanted)

    def having(self, request: HttpRequest, rows: QuerySet[Any], wanted: dict[str, str]) -> QuerySet[Any]:
        for key, value in wanted.items():
            label = JobLabel.objects.filter(
                tenant_id=OuterRef("tenant_id"), key=key, value=value, job_id=OuterRef("job_id")
            )
            rows = _where_there_is(rows, label.values("job_id"))
        return rows


def _where_there_is(rows: QuerySet[Any], row: QuerySet[Any]) -> QuerySet[Any]:
    """Ask for each of ``rows`` by itself: the planner may turn EXISTS into a join that begins with the other table."""
    name = f"there_is_{len(rows.query.annotations)}"
    return rows.alias(**{name: Subquery(row[:1])}).filter(**{f"{name}__isnull": False})


class ErrorCodeFilter(TextFilter):
    """Filters triggers by the error code of any of their attempts."""

    title = "error code"
    parameter_name = "error_code"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        code = (self.value() or "").strip()[:64]
        if not code:
            return queryset
        failed = Attempt.objects.filter(trigger_id=OuterRef("id"), error_code=code)
        return _where_there_is(queryset, failed.values("id"))


class AttemptErrorFilter(ErrorCodeFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        code = (self.value() or "").strip()[:64]
        return queryset.filter(error_code=code) if code else queryset


class LastErrorFilter(ErrorCodeFilter):
    """Filters triggers by the error code of their last attempt, as failures are grouped."""

    title = "last error code"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        code = (self.value() or "").strip()[:64]
        return (
            queryset.alias(last_error=of_last_attempt("error_code")).filter(last_error=code)
            if code
            else queryset
        )


class CalledHostFilter(TextFilter):
    """Filters triggers by the host that their jobs call."""

    title = "target (a host)"
    parameter_name = "target"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        host = (self.value() or "").strip()[:255]
        return queryset.alias(called=called_host()).filter(called=host) if host else queryset


class HttpStatusFilter(TextFilter):
    title = "HTTP status"
    parameter_name = "http_status"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        given = (self.value() or "").strip()
        if not given:
            return queryset
        if not re.fullmatch("[1-5][0-9][0-9]", given, re.ASCII):
            return refuse_filter(request, queryset, "An HTTP status is a number from 100 to 599.")
        return self.having(queryset, int(given))

    def having(self, rows: QuerySet[Any], status: int) -> QuerySet[Any]:
        return rows.filter(http_status=status)


class LastHttpStatusFilter(HttpStatusFilter):
    """Filters triggers by the HTTP status of the answer to their last attempt."""

    def having(self, rows: QuerySet[Any], status: int) -> QuerySet[Any]:
        return rows.alias(last_status=of_last_attempt("http_status")).filter(last_status=status)


class TenantOfAttempts(TextFilter):
    """By the tenant's slug: attempts name their tenant only by number."""

    title = "tenant (its slug)"
    parameter_name = "tenant"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        slug = (self.value() or "").strip()
        if not slug:
            return queryset
        found = Tenant.objects.filter(slug=slug).values_list("id", flat=True).first()
        return queryset.filter(tenant_id=found) if found else queryset.none()


class MadeWithin(CreatedWithin):
    leads = frozenset({"id"})


class _Instant(TextFilter):
    """A bound in time, as ``2030-01-31``, ``2030-01-31 02:00`` or with an offset; UTC without one."""

    leads = frozenset({"id"})
    #: None: by the time when a row's id was made.
    column: str | None = None
    lookup = ""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        given = (self.value() or "").strip()
        if not given:
            return queryset
        at = read_instant(given)
        if at is None:
            return refuse_filter(
                request, queryset, f"{given[:40]!r} is not a time such as 2030-01-31 02:00 (UTC)."
            )
        if self.column is None:
            return queryset.filter(**{f"id__{self.lookup}": first_id_since(at)})
        return queryset.filter(**{f"{self.column}__{self.lookup}": at})


class MadeSince(_Instant):
    title, parameter_name, lookup = "from (UTC)", "since", "gte"


class MadeUntil(_Instant):
    title, parameter_name, lookup = "until (UTC)", "until", "lt"


class DiedSince(MadeSince):
    title, column = "died from (UTC)", "finished_at"
    leads = frozenset({"finished_at"})


class DiedUntil(MadeUntil):
    title, column = "died until (UTC)", "finished_at"
    leads = frozenset({"finished_at"})


class DiedWithin(MadeWithin):
    """By the time of death, whenever the firing was made."""

    title, parameter_name = "died", "died"
    leads = frozenset({"finished_at"})

    def lookups(self, request: HttpRequest, model_admin: DjangoModelAdmin) -> Iterable[tuple[str, str]]:
        return [(name, title) for name, (title, _) in self.SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        span = self.SPANS.get(self.value() or "")
        return queryset.filter(finished_at__gte=database_now() - span[1]) if span else queryset


def read_instant(text: str) -> datetime | None:
    """A time within the years that are stored; None: ``text`` is not such a time."""
    if not _INSTANT.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at if EARLIEST <= at <= LATEST else None

"""The audit trail: who changed what, newest first. Read-only; found by object, tenant, kind, actor, action and time.

Each filter has an index in the order of the list (``models.trail``), except for the values that most rows have: a walk
from the newest finds those at once. Pages link to the changes of their object (``tenants.console.pages``).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from jobs.admin.shared.cells import NOTHING, coloured_label, instant_cell, json_cell
from jobs.admin.shared.lists import CreatedWithin, ReadOnlyAdmin, UncountedChangeList, words
from jobs.models import Change
from jobs.store.trail import ActorKind
from tenants.clock import database_now
from tenants.models import Tenant

COLOURS = {
    Change.Action.CREATED: "success",
    Change.Action.DELETED: "danger",
    Change.Action.SIGN_IN_FAILED: "warning",
}
MAX_FILTER_LENGTH = 200
#: The page of an object, by its kind. A job type declared over the API has none.
PAGES = {
    Change.Kind.JOB: "jobs_job",
    Change.Kind.TENANT: "tenants_tenant",
    Change.Kind.API_KEY: "tenants_apikey",
    Change.Kind.SECRET: "tenants_secret",
    Change.Kind.TRIGGER: "jobs_trigger",
    Change.Kind.OPERATION: "jobs_operation",
    Change.Kind.WORKFLOW: "jobs_workflow",
    Change.Kind.USER: "auth_user",
    Change.Kind.GROUP: "auth_group",
    Change.Kind.INSTALLATION: "jobs_installation",
    Change.Kind.TARGET: "jobs_targetrule",
}


class ColumnFilter(DropdownFilter):
    """One value of a column."""

    column: str
    values: Iterable[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return words(self.values)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        return queryset.filter(**{self.column: _typed(self.value())}) if self.value() else queryset


class KindFilter(ColumnFilter):
    title, parameter_name, column, values = "kind of object", "kind", "kind", Change.Kind.values


class ActionFilter(ColumnFilter):
    title, parameter_name, column, values = "action", "done", "action", Change.Action.values


class ActorKindFilter(ColumnFilter):
    title, parameter_name, column, values = "kind of actor", "actor_kind", "actor_kind", list(ActorKind)


class TenantFilter(TextFilter):
    """By slug. The slug of a foreign tenant is unknown, as is a slug that no tenant has."""

    title = "tenant's slug"
    parameter_name = "tenant"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        if not self.value():
            return queryset
        found = Tenant.objects.filter(slug=_typed(self.value())).values_list("pk", flat=True)[:1]
        return queryset.filter(tenant_id__in=list(found))


class ObjectFilter(TextFilter):
    title = "object's id"
    parameter_name = "object"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        return queryset.filter(object_id=_typed(self.value())) if self.value() else queryset


class ActorFilter(TextFilter):
    title = "actor, in full"
    parameter_name = "actor"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        return queryset.filter(actor=_typed(self.value())) if self.value() else queryset


class ChangedWithin(DropdownFilter):
    """Found by an index on the time."""

    title = "changed"
    parameter_name = "changed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, title) for name, (title, _) in CreatedWithin.SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Change]) -> QuerySet[Change]:
        span: timedelta | None = CreatedWithin.SPANS.get(self.value() or "", (None, None))[1]
        return queryset.filter(at__gte=_since(span)) if span else queryset


class TrailList(UncountedChangeList):
    """Adds to each row of the page its tenant's slug, in one query."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        _name_tenants(self.result_list)


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    of_history = True
    tenant_path = "tenant_id"
    list_display = ("at_", "kind_", "object_cell", "tenant", "done", "actor_", "columns")
    list_filter = (
        TenantFilter,
        KindFilter,
        ActionFilter,
        ActorKindFilter,
        ActorFilter,
        ObjectFilter,
        ChangedWithin,
    )
    search_fields = ("object_id",)
    search_help_text = "Exact id of an object, or an actor"
    found_by = ("object_id",)
    fieldsets = (
        (None, {"fields": (("at_", "done"), ("kind_", "object_cell", "object_id"), ("actor_", "tenant"))}),
        ("Changes", {"fields": ("before_and_after",)}),
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[UncountedChangeList]:
        return TrailList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        change = super().get_object(request, object_id, from_field)
        if change is not None:
            _name_tenants([change])
        return change

    def search_by_text(self, queryset: QuerySet[Change], text: str) -> QuerySet[Change]:
        column = "object_id" if text.isascii() and text.isdigit() else "actor"
        return queryset.filter(**{column: _typed(text)})

    @admin.display(description="at")
    def at_(self, change: Change) -> str:
        return instant_cell(change.at)

    @admin.display(description="kind")
    def kind_(self, change: Change) -> str:
        return str(change.get_kind_display()).lower() if change.kind != "api_key" else "API key"

    @admin.display(description="object")
    def object_cell(self, change: Change) -> str:
        page = PAGES.get(Change.Kind(change.kind))
        if page is None or not change.object_id or change.action == Change.Action.DELETED:
            return change.name or NOTHING
        url = reverse(f"admin:{page}_change", args=[quote(change.object_id)])
        return format_html('<a class="text-link" href="{}">{}</a>', url, change.name or change.object_id)

    @admin.display(description="tenant")
    def tenant(self, change: Any) -> str:
        return change.tenant_slug or NOTHING

    @admin.display(description="action")
    def done(self, change: Change) -> str:
        return coloured_label(change.action, COLOURS.get(Change.Action(change.action)))

    @admin.display(description="by")
    def actor_(self, change: Change) -> str:
        return f"{change.actor_kind.replace('_', ' ')} {change.actor}"

    @admin.display(description="what")
    def columns(self, change: Change) -> str:
        return ", ".join(sorted(change.changes)) or NOTHING

    @admin.display(description="before and after")
    def before_and_after(self, change: Change) -> str:
        """The values by column; of a value that is not kept, only that it changed."""
        shown = {
            column: {"before": values[0], "after": values[1]}
            if values
            else "changed; its values are not kept"
            for column, values in sorted(change.changes.items())
        }
        return json_cell(shown)


def _name_tenants(changes: Iterable[Any]) -> None:
    ids = {change.tenant_id for change in changes} - {None}
    slugs = dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "slug")) if ids else {}
    for change in changes:
        change.tenant_slug = slugs.get(change.tenant_id, "")


def _typed(text: str | None) -> str:
    """The text as it can be in a column: Postgres takes no NUL."""
    return (text or "").strip().replace("\0", "")[:MAX_FILTER_LENGTH]


def _since(span: timedelta) -> datetime:
    return database_now() - span

"""The audit trail: who changed what, newest first. Read-only; found by object, by actor and by time (docs/audit.md)."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from jobs.admin.shared.cells import NOTHING, coloured_label, instant_cell, json_cell
from jobs.admin.shared.lists import CreatedWithin, ReadOnlyAdmin
from jobs.models import Change
from tenants.clock import database_now

COLOURS = {Change.Action.CREATED: "success", Change.Action.DELETED: "danger"}
MAX_FILTER_LENGTH = 200


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


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    tenant_path = "tenant_id"
    list_display = ("at_", "kind", "name", "done", "actor_", "columns")
    list_filter = (ObjectFilter, ActorFilter, ChangedWithin)
    search_fields = ("object_id",)
    search_help_text = "Exact id of an object, or an actor"
    found_by = ("object_id",)
    fieldsets = (
        (None, {"fields": (("at_", "done"), ("kind", "name", "object_id"), ("actor_", "tenant_id"))}),
        ("What changed", {"fields": ("before_and_after",)}),
    )

    def search_by_text(self, queryset: QuerySet[Change], text: str) -> QuerySet[Change]:
        column = "object_id" if text.isascii() and text.isdigit() else "actor"
        return queryset.filter(**{column: _typed(text)})

    @admin.display(description="at")
    def at_(self, change: Change) -> str:
        return instant_cell(change.at)

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
        """By column; of what is not kept, that it changed."""
        shown = {
            column: {"before": values[0], "after": values[1]}
            if values
            else "changed; its values are not kept"
            for column, values in sorted(change.changes.items())
        }
        return json_cell(shown)


def _typed(text: str | None) -> str:
    """What can be in a column: Postgres takes no NUL."""
    return (text or "").strip().replace("\0", "")[:MAX_FILTER_LENGTH]


def _since(span: timedelta) -> datetime:
    return database_now() - span

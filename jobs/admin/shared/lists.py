"""Lists of tables with millions of rows: a page is one range of the primary key, and nothing is ever counted or joined.

A page asks for one row more than it shows, which tells whether there is a next page. The order is fixed, because
sorting by any other column would sort the whole table. Related rows are prefetched: one query by id for each page.
Pages end at ``MAX_PAGES``, because the database walks over every row it skips. To see rows beyond, use a filter or a
search.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.admin import ShowFacets, display
from django.contrib.admin.options import ModelAdmin as DjangoModelAdmin
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from unfold.contrib.filters.admin import DropdownFilter
from unfold.views import ChangeList

from jobs.admin.shared.cells import instant_cell
from jobs.admin.shared.requests import last_write, wants_present
from jobs.admin.shared.veil import HIDDEN, may_see_payloads, veil
from jobs.models.fields import first_id_since
from jobs.store import replica
from tenants.clock import database_now
from tenants.console import ConsoleAdmin

MAX_PAGES = 200


class UncountedPage(Page):
    """A page that knows from its query whether another follows."""

    def __init__(self, rows: list[Any], number: int, paginator: "UncountedPaginator", *, more: bool) -> None:
        super().__init__(rows, number, paginator)
        self._more = more

    def has_next(self) -> bool:
        return self._more and self.number < MAX_PAGES


class UncountedPaginator(Paginator):
    """Pages without a COUNT; a page number that makes no sense gives the nearest page that does."""

    template_name = "admin/uncounted_pagination.html"

    def page(self, number: Any) -> UncountedPage:
        number = min(max(int(number), 1), MAX_PAGES)
        first = (number - 1) * self.per_page
        rows = list(self.object_list[first : first + self.per_page + 1])  # type: ignore[index]
        return UncountedPage(rows[: self.per_page], number, self, more=len(rows) > self.per_page)


class UncountedChangeList(ChangeList):
    """A list in the one order its admin declares."""

    page_num: int

    def get_results(self, request: HttpRequest) -> None:
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        page = self.paginator.page(self.page_num)
        self.page_num, self.result_list, self.has_next = page.number, page.object_list, page.has_next()
        # Only the rows of the page are known, so the templates have no total to show and no "select all".
        self.result_count = self.full_result_count = len(page.object_list)
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = True

    def apply_select_related(self, qs: QuerySet[Any]) -> QuerySet[Any]:
        """Django would join every relation a row shows."""
        return qs

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return list(self.model_admin.get_ordering(request))


class UncountedAdmin(ConsoleAdmin):
    """Base of every list over a table that may be large.

    ``fetched`` names the relations that a row shows. ``found_by`` names the columns in which a search looks for an id.
    ``veiled`` names the fields of its page that only users who may see payloads see. ``of_history``: its list tells of
    the past, and is read from a replica where there is one. A search is not, as its row may be only a moment old.
    """

    paginator = UncountedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    list_per_page = 50
    list_filter_submit = True
    compressed_fields = False
    ordering: tuple[str, ...] = ("-id",)
    sortable_by = ()
    fetched: tuple[Any, ...] = ()
    found_by: tuple[str, ...] = ("id",)
    veiled: tuple[str, ...] = ()
    of_history = False
    list_before_template = "admin/as_of.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        def answer(as_of: datetime | None) -> HttpResponseBase:
            told = {"as_of": instant_cell(as_of) if as_of else "", **(extra_context or {})}
            page: Any = super(UncountedAdmin, self).changelist_view(request, told)
            # Rendered here and now: columns and filters read more while they are rendered.
            return page.render() if hasattr(page, "render") else page

        if not self.tells_of_history(request):
            return super().changelist_view(request, extra_context)
        return replica.read(answer, fresh=wants_present(request), since=last_write(request))

    def tells_of_history(self, request: HttpRequest) -> bool:
        """Whether the list that is asked for may be read from a replica."""
        return self.of_history and request.method in ("GET", "HEAD") and not request.GET.get("q", "").strip()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return UncountedChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related(*self.fetched)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return (
            fieldsets if not self.veiled or may_see_payloads(request.user) else veil(fieldsets, self.veiled)
        )

    @display(description="payloads and answers")
    def hidden_fields(self, row: Any) -> str:
        return HIDDEN

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Rows whose id, or the id of an object that they belong to, is exactly the typed text."""
        text = search_term.strip()
        if not text:
            return queryset, False
        try:
            wanted = UUID(text)
        except ValueError:
            return self.search_by_text(queryset, text), False
        for column in self.found_by:
            found = queryset.filter(**{column: wanted})
            if column == self.found_by[-1] or found.order_by().exists():
                return found, False
        return queryset.none(), False

    def search_by_text(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """The rows that a search for a text that is no id finds: none, unless a list knows better."""
        return queryset.none()


class ReadOnlyAdmin(UncountedAdmin):
    """Rows that only the engine writes: users look at them, and never add, edit or delete them."""

    actions: Any = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class CreatedWithin(DropdownFilter):
    """Rows made lately, found by the range of their UUIDv7 ids: the primary key serves it."""

    title = "created"
    parameter_name = "created"
    SPANS = {
        "1h": ("In the last hour", timedelta(hours=1)),
        "24h": ("In the last 24 hours", timedelta(hours=24)),
        "7d": ("In the last 7 days", timedelta(days=7)),
    }

    def lookups(self, request: HttpRequest, model_admin: DjangoModelAdmin) -> Iterable[tuple[str, str]]:
        return [(name, title) for name, (title, _) in self.SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        span = self.SPANS.get(self.value() or "")
        return queryset.filter(id__gte=first_id_since(database_now() - span[1])) if span else queryset


def words(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Choices of a filter from an enumeration: the value, and the same for people."""
    return ((str(value), str(value).replace("_", " ")) for value in values)


def is_id(text: str) -> bool:
    """Whether ``text`` is a UUID, in any of its spellings."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True

"""Lists that look at a bounded number of rows for a page, as those of the API do, and say so.

A list walks along an index, in one order. Filters that the index serves lead the walk: the page is found at once,
however few rows match. All other filters sift the rows that the walk passes, and the walk ends after ``Walk.most``
rows. The page then says how far it searched, and its link goes on from there. So no filter scans a table, however rare
the rows it looks for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from jobs.admin.shared.lists import UncountedAdmin, UncountedChangeList
from tenants.console.reach import tenants_within_reach
from tenants.models import Tenant

#: Rows that a page looks at, as a page of the API does.
MAX_SEARCHED = 10_000
#: Parameters of a list that are no filters: which of its tabs, and from where a search goes on.
TAB, BEYOND = "tab", "beyond"


@dataclass(frozen=True)
class Tab:
    """One of several lists on a page. ``empty``: its text when it has no rows: which rows it lacks, and why."""

    name: str
    title: str
    empty: str
    columns: tuple[str, ...]
    #: Names of the states that its filter by state offers; none: it has no such filter.
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class Walk:
    """``rows`` in the order of ``column``, by an index; ``sifts``: not all are shown, even without a filter."""

    rows: QuerySet[Any]
    column: str = "id"
    falling: bool = True
    #: Rows that a page looks at; None: ``MAX_SEARCHED``.
    most: int | None = None
    sifts: bool = False
    #: Whether the index leads to the rows of one tenant as well.
    by_tenant: bool = True
    #: In words, where the walk itself is only the first so many rows.
    among: str = ""

    def led_by(self, spec: Any) -> bool:
        """Whether the index leads to the rows of a filter: each filter names the columns by which it ``leads``."""
        leads: frozenset[str] = getattr(spec, "leads", frozenset())
        return bool(leads & {self.column, *(("tenant",) if self.by_tenant else ())})

    @property
    def order(self) -> list[str]:
        sign = "-" if self.falling else ""
        return [f"{sign}{self.column}", *([] if self.column == "id" else [f"{sign}id"])]

    def beyond(self, rows: QuerySet[Any], place: Any) -> QuerySet[Any]:
        return rows.filter(**{f"{self.column}__{'lt' if self.falling else 'gt'}": place})

    def until(self, rows: QuerySet[Any], place: Any) -> QuerySet[Any]:
        return rows.filter(**{f"{self.column}__{'gte' if self.falling else 'lte'}": place})

    def edge(self, most: int, *, after: Any) -> Any:
        """The place of the last of the next ``most`` rows; None: the walk ends sooner."""
        rows = (self.rows if after is None else self.beyond(self.rows, after)).prefetch_related(None)
        walk: QuerySet[Any] = rows.order_by(self.order[0]).values_list(self.column, flat=True)
        return walk[most - 1 : most].first()

    def read(self, text: str) -> Any:
        """A place as an address has it; None: ``text`` is no place."""
        try:
            return UUID(text) if self.column == "id" else _aware(parse_datetime(text))
        except ValueError:
            return None


def _aware(instant: datetime | None) -> datetime | None:
    return instant if instant is not None and instant.tzinfo else None


class WalkedChangeList(UncountedChangeList):
    """A list with tabs, chips of its filters, and a bound on the rows that a page searches."""

    model_admin: "WalkedAdmin"
    queryset: QuerySet[Any]
    #: The part that was searched, in words, and the address at which the search goes on; empty: all was searched.
    searched = search_on = ""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = super().get_filters_params(params)
        return {name: value for name, value in found.items() if name not in (TAB, BEYOND)}

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return self.walk(request).order

    def walk(self, request: HttpRequest) -> Walk:
        if not hasattr(self, "_walk"):
            self._walk: Walk = self.model_admin.walk(request)
        return self._walk

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        found = super().get_queryset(request, exclude_parameters)
        return self.model_admin.of_tab(request, found)

    def get_results(self, request: HttpRequest) -> None:
        walk, matching = self.walk(request), self.queryset
        self.tab = self.model_admin.tab(request)
        self.empty = self.tab.empty if self.tab else self.model_admin.empty
        edge = None
        for most in sorted({MAX_SEARCHED, walk.most or MAX_SEARCHED}):
            self.queryset, edge = self._bounded(request, matching, walk, most)
            super().get_results(request)
            if edge is None or len(self.result_list) == self.list_per_page:
                break
        self.searched = walk.among
        if edge is not None and not self.has_next:
            first = "next" if self.params.get(BEYOND) else "latest" if walk.falling else "first"
            self.searched = f"Searched the {first} {most:,}."
            self.search_on = self.get_query_string({BEYOND: str(edge)})
        self.queryset, self.result_list = matching, list(self.result_list)
        self.model_admin.add_to_rows(request, self.result_list)

    def _bounded(
        self, request: HttpRequest, matching: QuerySet[Any], walk: Walk, most: int
    ) -> tuple[QuerySet[Any], Any]:
        """The matches among the next ``most`` rows of the walk, and the place of the last; None: it ends sooner."""
        place = walk.read(self.params.get(BEYOND, ""))
        rows = matching if place is None else walk.beyond(matching, place)
        if not self.sifts(request, walk):
            return rows, None
        led = replace(walk, rows=self._led(request, walk))
        edge = led.edge(most, after=place)
        return (rows if edge is None else walk.until(rows, edge)), edge

    def _led(self, request: HttpRequest, walk: Walk) -> QuerySet[Any]:
        """The rows of the walk under the filters that lead it."""
        rows, one = walk.rows, self.model_admin.tenant_of(request)
        if one is not None and walk.by_tenant:
            rows = rows.filter(tenant_id=one)
        for spec in self.active_filters():
            if walk.led_by(spec):
                rows = spec.queryset(request, rows)
        return rows

    def sifts(self, request: HttpRequest, walk: Walk) -> bool:
        """Whether some filter looks at rows that it does not show. A search by id finds its rows by an index."""
        if self.query:
            return False
        within = tenants_within_reach(request.user)
        one = self.model_admin.tenant_of(request) if walk.by_tenant else None
        narrow = within is not None and one is None
        return walk.sifts or narrow or any(not walk.led_by(spec) for spec in self.active_filters())

    def active_filters(self) -> Iterator[Any]:
        for spec in self.filter_specs:
            if any(self.params.get(name) for name in spec.expected_parameters()):
                yield spec

    @property
    def tabs(self) -> list[dict[str, Any]]:
        return [
            {"title": tab.title, "url": f"?{self._tab_query(tab)}", "active": tab == self.tab}
            for tab in self.model_admin.tabs
        ]

    def _tab_query(self, tab: Tab) -> str:
        drop = [BEYOND, "q", "state__exact"]
        return self.get_query_string({TAB: tab.name}, remove=drop).removeprefix("?")

    @property
    def chips(self) -> list[dict[str, str]]:
        """Each active filter in words, with the address of the list without it."""
        found = [
            {"text": f"{spec.title}: {_words(spec, self.params[name])}", "url": self.without(name)}
            for spec in self.active_filters()
            for name in spec.expected_parameters()
            if self.params.get(name)
        ]
        if self.query:
            found.append({"text": f"search: {self.query}", "url": self.without("q")})
        return found

    def without(self, name: str) -> str:
        kept = {key: value for key, value in self.params.items() if key not in (name, BEYOND)}
        return self.get_query_string(kept, remove=[""])


def _words(spec: Any, value: str) -> str:
    if hasattr(spec, "in_words"):
        return str(spec.in_words(value))
    of_field: Any = getattr(getattr(spec, "field", None), "flatchoices", ())
    choices: Any = getattr(spec, "lookup_choices", None) or of_field
    return str({str(key): title for key, title in choices}.get(value, value))


class WalkedAdmin(UncountedAdmin):
    """Base of the lists that are bounded. Names the index its list walks along, and the text of an empty list."""

    tabs: tuple[Tab, ...] = ()
    #: The text of an empty list without tabs.
    empty = "There is nothing here yet."
    list_before_template = "admin/list_head.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[UncountedChangeList]:
        return WalkedChangeList

    def tab(self, request: HttpRequest) -> Tab | None:
        """The tab that is asked for, the first by default; None: no tab, as a searched row may be in any."""
        if not self.tabs or request.GET.get("q", "").strip():
            return None
        asked = request.GET.get(TAB, "")
        state = request.GET.get("state__exact")
        of_state = next(
            (tab for tab in self.tabs if not asked and state and state in tab.states), self.tabs[0]
        )
        return next((tab for tab in self.tabs if tab.name == asked), of_state)

    def walk(self, request: HttpRequest) -> Walk:
        return Walk(self.model._default_manager.all())

    def of_tab(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The part of ``rows`` that the tab is about."""
        return rows

    def add_to_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add to the rows of a page the other values that its columns show, in one statement for all."""

    def tenant_of(self, request: HttpRequest) -> int | None:
        """The one tenant that the list is about: the filter's, or the only one within reach."""
        given = request.GET.get("tenant__id__exact", "")
        if given.isdecimal() and len(given) < 19:
            return int(given)
        within = tenants_within_reach(request.user)
        return next(iter(within)) if within is not None and len(within) == 1 else None

    def tenants_of(self, request: HttpRequest) -> list[int]:
        """The tenants that the list is about; where it is about all, the newest ``MAX_TENANTS``."""
        one, within = self.tenant_of(request), tenants_within_reach(request.user)
        if one is not None:
            return [one] if within is None or one in within else []
        if within is not None:
            return sorted(within)
        return list(Tenant.objects.order_by("-id").values_list("id", flat=True)[:MAX_TENANTS])


#: Tenants that a search by label, status or name goes through one by one.
MAX_TENANTS = 2_000


def refuse_filter(request: HttpRequest, rows: QuerySet[Any], why: str) -> QuerySet[Any]:
    """No rows, and a message that says why the filter makes no sense."""
    messages.error(request, why)
    return rows.none()

"""Pages by cursor: each follows from the last row of the one before, so no page is counted and none is skipped over.

Rows are ordered by a unique, indexed column alone (UUIDv7 ids follow creation). A cursor that Carillon did not make is
a 400.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from jobs.core.errors import InvalidInput
from jobs.core.instants import EARLIEST, LATEST
from jobs.core.states import SKIP_REASONS

_MAX_NAME_LENGTH = 200
_INSTANT = {"type": "string", "format": "date-time"}
SKIPPED_RANGES = {
    "type": "array",
    "description": "Ranges of skipped firings in this page's stretch of time, one record each, newest first.",
    "items": {
        "type": "object",
        "required": ["from_at", "until_at", "count", "reason"],
        "properties": {
            "from_at": _INSTANT,
            "until_at": _INSTANT | {"description": "Time of the last skipped firing."},
            "count": {"type": "integer"},
            "reason": {"type": "string", "enum": list(SKIP_REASONS)},
        },
    },
}


class IdCursorPagination(CursorPagination):
    """By id: the newest first, or the oldest.

    Not every filter of a list has an index. Filters without one are a view's ``sift``: they look at the rows of the
    walk, and no page looks at more than ``most_rows``. A page that ends there may hold few rows or none, and its link
    leads on from where it stopped.
    """

    #: The orderings that a caller may ask for, the default first, each with the column it goes by.
    orderings: Mapping[str, str] = {"-created": "-id", "created": "id"}
    page_size = 50
    page_size_query_param = "page_size"
    page_size_query_description = "Number of rows in a page, 1 to 200."
    cursor_query_description = "Cursor from next or previous of another page."
    max_page_size = 200
    most_rows = 10_000
    template = None

    def get_page_size(self, request: Request) -> int:
        given = request.query_params.get("page_size")
        if given is None:
            return self.page_size
        if not re.fullmatch("[0-9]{1,3}", given, re.ASCII) or not 1 <= int(given) <= self.max_page_size:
            raise InvalidInput({"page_size": f"Must be a whole number from 1 to {self.max_page_size}."})
        return int(given)

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        orderings = getattr(view, "orderings", None) or self.orderings
        given = request.query_params.get("ordering", next(iter(orderings)))
        if given not in orderings:
            raise InvalidInput({"ordering": f"Must be one of {', '.join(orderings)}."})
        return (orderings[given],)

    def decode_cursor(self, request: Request) -> Cursor | None:
        try:
            cursor = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                POSITIONS[self._column](str(cursor.position))
        except (NotFound, ValueError):
            raise InvalidInput(
                {"cursor": "Is not a cursor of this list; take it from next or previous."}
            ) from None
        return cursor

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        sift: Callable[[QuerySet[Any]], QuerySet[Any]] | None = getattr(view, "sift", None)
        edge = None
        if sift is not None:
            self.ordering = self.get_ordering(request, queryset, view)
            cursor = self.decode_cursor(request) or Cursor(0, False, None)
            queryset, edge = self._within_reach(queryset, cursor)
            queryset = sift(queryset)
        page: list[Any] = super().paginate_queryset(queryset, request, view) or []
        backwards = bool(self.cursor and self.cursor.reverse)
        self._next_edge = self._previous_edge = None
        if edge is not None and backwards and not self.has_previous:
            self.has_previous, self.previous_position, self._previous_edge = True, edge, edge
        elif edge is not None and not backwards and not self.has_next:
            self.has_next, self.next_position, self._next_edge = True, edge, edge
        return page

    def get_next_link(self) -> str | None:
        if self._next_edge is not None:
            return self.encode_cursor(_cursor(self._next_edge))
        return super().get_next_link()

    def get_previous_link(self) -> str | None:
        if self._previous_edge is not None:
            return self.encode_cursor(_cursor(self._previous_edge, reverse=True))
        return super().get_previous_link()

    @property
    def _column(self) -> str:
        return str(self.ordering[0]).lstrip("-")

    def _within_reach(self, queryset: QuerySet[Any], cursor: Cursor) -> tuple[QuerySet[Any], str | None]:
        """The next ``most_rows`` of the walk from the cursor, and the position of the last (None: fewer are left)."""
        column, falling = self._column, str(self.ordering[0]).startswith("-") != bool(cursor.reverse)
        walk = queryset.order_by(f"-{column}" if falling else column)
        if cursor.position is not None:
            walk = walk.filter(**{f"{column}__{'lt' if falling else 'gt'}": cursor.position})
        last = walk.values_list(column, flat=True)[self.most_rows - 1 : self.most_rows].first()
        if last is None:
            return queryset, None
        return queryset.filter(**{f"{column}__{'gte' if falling else 'lte'}": last}), str(last)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        orderings = list(getattr(view, "orderings", None) or self.orderings)
        ordering = {
            "name": "ordering",
            "in": "query",
            "required": False,
            "description": f"{orderings[0]} by default; a minus sign reverses the order.",
            "schema": {"type": "string", "enum": orderings},
        }
        described = super().get_schema_operation_parameters(view)
        for parameter in described:
            if parameter["name"] == self.page_size_query_param:
                parameter["schema"] |= {"minimum": 1, "maximum": self.max_page_size}
        return [*described, ordering]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": "string", "format": "uri", "nullable": True}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }


class FiringCursorPagination(IdCursorPagination):
    """Triggers of one job, the latest firing first; no two of a job have the same ``scheduled_for``.

    A page also says which ranges of skipped firings fall into its stretch of time; the view adds them.
    """

    orderings = {"-scheduled_for": "-scheduled_for"}
    #: The name of the page in OpenAPI.
    component_name = "PaginatedJobTriggerList"

    @property
    def stretch(self) -> tuple[datetime | None, datetime | None]:
        """The time this page stands for, ``after < t <= until``: no gap between pages, and no end on the outer ones."""
        after = datetime.fromisoformat(str(self.next_position)) if self.has_next else None
        until = self.page[0].scheduled_for if self.has_previous and self.page else None
        return after, until

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        answer = super().get_paginated_response_schema(schema)
        answer["required"].append("skipped_ranges")
        answer["properties"]["skipped_ranges"] = SKIPPED_RANGES
        return answer


def _cursor(position: str, *, reverse: bool = False) -> Cursor:
    # A position is a value of a column, although the stubs say otherwise.
    return Cursor(0, reverse, cast(Any, position))


def _read_instant(text: str) -> object:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None or not EARLIEST <= instant <= LATEST:
        raise ValueError(text)
    return instant


def _read_name(text: str) -> object:
    if len(text) > _MAX_NAME_LENGTH or "\0" in text:
        raise ValueError(text)
    return text


def _read_number(text: str) -> object:
    if not re.fullmatch("[0-9]{1,18}", text, re.ASCII):
        raise ValueError(text)
    return int(text)


#: The reader of a cursor's position, by the column the cursor goes by. It raises ``ValueError``.
POSITIONS: dict[str, Callable[[str], object]] = {
    "id": UUID,
    "scheduled_for": _read_instant,
    "name": _read_name,
    "slug": _read_name,
    "number": _read_number,
    "item": _read_number,
}

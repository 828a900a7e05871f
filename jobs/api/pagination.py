"""Pages by cursor: each follows from the last row of the one before, so no page is counted and none is skipped over.

Rows are ordered by a unique, indexed column alone (UUIDv7 ids follow creation). A cursor that was not ours is a 400.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from jobs.core.errors import InvalidInput
from jobs.core.schedule import EARLIEST, LATEST
from jobs.core.states import SKIP_REASONS

_INSTANT = {"type": "string", "format": "date-time"}
SKIPPED_RANGES = {
    "type": "array",
    "description": "Runs of skipped firings in this page's stretch of time that are kept as one record, newest first.",
    "items": {
        "type": "object",
        "required": ["from_at", "until_at", "count", "reason"],
        "properties": {
            "from_at": _INSTANT,
            "until_at": _INSTANT | {"description": "The last of them."},
            "count": {"type": "integer"},
            "reason": {"type": "string", "enum": list(SKIP_REASONS)},
        },
    },
}


class IdCursorPagination(CursorPagination):
    """Newest first, by id."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    page_size_query_description = "Rows of a page, 1 to 200."
    cursor_query_description = "Taken from next or previous of another page."
    max_page_size = 200
    template = None
    read_position: Callable[[str], object] = staticmethod(UUID)

    def get_page_size(self, request: Request) -> int:
        given = request.query_params.get("page_size")
        if given is None:
            return self.page_size
        if not re.fullmatch("[0-9]{1,3}", given, re.ASCII) or not 1 <= int(given) <= self.max_page_size:
            raise InvalidInput({"page_size": f"Must be a whole number from 1 to {self.max_page_size}."})
        return int(given)

    def decode_cursor(self, request: Request) -> Cursor | None:
        try:
            cursor = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                self.read_position(str(cursor.position))
        except (NotFound, ValueError):
            raise InvalidInput(
                {"cursor": "Is not a cursor of this list; take it from next or previous."}
            ) from None
        return cursor

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

    ordering = "-scheduled_for"

    @property
    def stretch(self) -> tuple[datetime | None, datetime | None]:
        """The time this page stands for, ``after < t <= until``: pages leave no gap, and the outer ones no end."""
        after = datetime.fromisoformat(str(self.next_position)) if self.has_next else None
        until = self.page[0].scheduled_for if self.has_previous and self.page else None
        return after, until

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        answer = super().get_paginated_response_schema(schema)
        answer["required"].append("skipped_ranges")
        answer["properties"]["skipped_ranges"] = SKIPPED_RANGES
        return answer

    @staticmethod
    def read_position(text: str) -> object:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None or not EARLIEST <= instant <= LATEST:
            raise ValueError(text)
        return instant

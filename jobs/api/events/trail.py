"""``GET /audit``: who changed which of the tenant's objects, from any place in the trail on (docs/audit.md)."""

import re
from collections.abc import Collection
from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.events.feed import MAX_PAGE, PLACE, id_of, limit_of, page_of, place_of
from jobs.api.schema import HISTORY, endpoint
from jobs.api.views.base import Endpoint
from jobs.core.errors import InvalidInput
from jobs.shapes.history import ChangeShape, ChangesShape
from jobs.store import trail
from jobs.store.events import START, Place
from tenants.models import ApiKey

_MAX_ID_LENGTH = 64
#: The prefix in a key's name on the trail.
_KEY = re.compile("ck_([a-z0-9]{12}) ")
#: Actors of which a tenant learns only the kind: the people of the installation are not its business.
_UNNAMED = (trail.ActorKind.OPERATOR, trail.ActorKind.COMMAND, trail.ActorKind.DATABASE)
_EXAMPLE = {
    "results": [
        {
            "id": "7512-42",
            "at": "2030-01-31T02:05:00.000000Z",
            "object": {
                "kind": "job",
                "id": "018f6d3e-7c1a-7000-8000-000000000001",
                "name": "nightly-report",
            },
            "action": "updated",
            "actor": {"kind": "api_key", "name": "ck_k3v9x2m7q1ab deploy"},
            "changes": {"priority": {"before": 2, "after": 1}, "payload": None},
        }
    ],
    "cursor": "7512-42",
    "more": False,
}


class TrailView(Endpoint):
    of_history = True
    query_parameters = ("after", "limit", "object_id")
    scope = ApiKey.Scope.ADMIN

    @endpoint(
        "List the changes of your jobs, job types, keys, secrets and your tenant, with their actors, oldest "
        "first",
        responses={200: ChangesShape},
        parameters=[
            OpenApiParameter(
                "after",
                {"type": "string", "pattern": f"^{PLACE.pattern}$"},
                description="Return the changes after this: an id or a cursor; all stored changes by "
                "default.",
            ),
            OpenApiParameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                description="Number of changes in a page; 100 by default.",
            ),
            OpenApiParameter(
                "object_id",
                {"type": "string", "pattern": f"^[ -~]{{1,{_MAX_ID_LENGTH}}}$"},
                description="Only changes of this object.",
            ),
            *HISTORY,
        ],
        examples=[OpenApiExample("A job was edited", value=_EXAMPLE, response_only=True)],
        operation_id="audit_list",
    )
    def get(self, request: Request) -> Response:
        given = request.query_params.get("after")
        after = START if given is None else place_of(given, field="after")
        limit = limit_of(request)
        return self.from_history(
            partial(self._page, after, limit=limit, object_id=request.query_params.get("object_id"))
        )

    def _page(self, after: Place, *, limit: int, object_id: str | None) -> Response:
        rows = self._rows(after=after, limit=limit + 1, object_id=object_id)
        return page_of(
            rows, after=after, limit=limit, present=partial(_present, unnamed=_of_installation(rows))
        )

    def _rows(self, *, after: Any, limit: int, object_id: str | None) -> list[Any]:
        if object_id is None:
            return trail.page(tenant_id=self.tenant.id, after=after, limit=limit)
        if (
            not 1 <= len(object_id) <= _MAX_ID_LENGTH
            or not object_id.isascii()
            or not object_id.isprintable()
        ):
            raise InvalidInput({"object_id": "Must be an id, as in object.id."})
        return trail.page_of_object(
            tenant_id=self.tenant.id, object_id=object_id.lower(), after=after, limit=limit
        )


def _of_installation(rows: list[Any]) -> set[str]:
    """The actors of ``rows`` that are keys of the installation: their holders are not a tenant's business either."""
    prefixes = {
        match[1]: row.actor
        for row in rows
        if row.actor_kind == trail.ActorKind.API_KEY and (match := _KEY.match(row.actor))
    }
    if not prefixes:
        return set()
    found = ApiKey.objects.filter(tenant=None, prefix__in=prefixes).values_list("prefix", flat=True)
    return {prefixes[prefix] for prefix in found}


def _present(row: Any, *, unnamed: Collection[str]) -> dict[str, Any]:
    actor = {"kind": row.actor_kind, "name": None if row.actor_kind in _UNNAMED else row.actor}
    if row.actor in unnamed:
        actor = {"kind": trail.ActorKind.OPERATOR, "name": None}
    return ChangeShape.of(
        row,
        id=id_of(row),
        object=row,
        actor=actor,
        changes={
            column: values and {"before": values[0], "after": values[1]}
            for column, values in row.changes.items()
        },
    )

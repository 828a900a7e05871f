"""``GET /events``: changes, from any place in the feed on; pages as JSON, or a stream as ``text/event-stream``."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.events.stream import stream
from jobs.api.renderers import FastJSONRenderer
from jobs.api.schema import endpoint
from jobs.api.views.base import Endpoint
from jobs.core.errors import InvalidInput
from jobs.shapes.history import Events, EventShape
from jobs.store import events
from jobs.store.events import START, Place

MAX_PAGE, _FEW = 1000, 100
PLACE = re.compile(r"([0-9]{1,19})-([0-9]{1,18})", re.ASCII)
LATEST = "latest"


class EventStreamRenderer(FastJSONRenderer):
    """The renderer for ``Accept: text/event-stream``. Problems are JSON all the same."""

    media_type = "text/event-stream"
    format = "events"


class EventsView(Endpoint):
    query_parameters = ("after", "limit")
    renderer_classes = (FastJSONRenderer, EventStreamRenderer)

    @endpoint(
        "List the events of your jobs, triggers, workflows and runs, oldest first; with Accept: "
        "text/event-stream as server-sent events",
        responses={200: Events},
        parameters=[
            OpenApiParameter(
                "after",
                {"type": "string", "pattern": f"^({PLACE.pattern}|{LATEST})$"},
                description=f"Return the events after this: the id of an event, a cursor, or {LATEST}; all "
                "stored events by default.",
            ),
            OpenApiParameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                description=f"Number of events in a page, 1 to {MAX_PAGE}; {_FEW} by default.",
            ),
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": f"^({PLACE.pattern})?$"},
                OpenApiParameter.HEADER,
                description="For streams: the same as after, and preferred to it. An empty value counts as "
                "absent.",
            ),
        ],
        examples=[
            OpenApiExample(
                "A dead letter",
                value={
                    "results": [
                        {
                            "id": "7512-42",
                            "at": "2030-01-31T02:05:00Z",
                            "kind": "trigger.dead",
                            "job_id": "018f6d3e-7c1a-7000-8000-000000000001",
                            "trigger_id": "018f6d3e-7c1a-7000-8000-000000000002",
                            "workflow_id": None,
                            "workflow_run_id": None,
                            "data": {
                                "job_name": "nightly-report",
                                "job_type": "webhook",
                                "scheduled_for": "2030-01-31T02:00:00+00:00",
                                "reason": "exhausted",
                                "attempts": 4,
                                "http_status": 503,
                            },
                        }
                    ],
                    "cursor": "7512-42",
                    "more": False,
                },
                response_only=True,
            )
        ],
        operation_id="events_list",
    )
    def get(self, request: Request) -> HttpResponseBase:
        streams = isinstance(request.accepted_renderer, EventStreamRenderer)
        given = request.headers.get("Last-Event-ID")
        seen = place_of(given, field="Last-Event-ID") if given else None
        after = seen if streams and seen else _after(request, default=LATEST if streams else "")
        if streams:
            lines = stream(tenant_id=self.tenant.id, after=after, render=_rendered)
            # Without this, nginx would hold back events that must arrive at once.
            headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            return StreamingHttpResponse(lines, content_type="text/event-stream", headers=headers)
        limit = limit_of(request)
        rows = events.page(tenant_id=self.tenant.id, after=after, limit=limit + 1)
        return page_of(rows, after=after, limit=limit, present=_present)


def _after(request: Request, *, default: str) -> Place:
    given = request.query_params.get("after", default or None)
    if given == LATEST:
        return events.horizon()
    return START if given is None else place_of(given, field="after")


def place_of(given: str, *, field: str) -> Place:
    match = PLACE.fullmatch(given)
    if match is None:
        raise InvalidInput({field: f"Must be the id of an event or a cursor, such as 7512-42, or {LATEST}."})
    return Place(int(match[1]), int(match[2]))


def limit_of(request: Request) -> int:
    given = request.query_params.get("limit", str(_FEW))
    if not re.fullmatch("[0-9]{1,4}", given, re.ASCII) or not 1 <= int(given) <= MAX_PAGE:
        raise InvalidInput({"limit": f"Must be a whole number from 1 to {MAX_PAGE}."})
    return int(given)


def page_of(
    rows: Sequence[Any], *, after: Place, limit: int, present: Callable[[Any], dict[str, Any]]
) -> Response:
    """The answer of a feed: its rows, the place behind the last of them, and whether there is more.

    ``rows`` were read with ``limit + 1``: an extra row shows that there is more.
    """
    shown = rows[:limit]
    last = id_of(shown[-1] if shown else after)
    return Response({"results": [present(row) for row in shown], "cursor": last, "more": len(rows) > limit})


def id_of(row: Any) -> str:
    """The text that stands for a row's place, or a place, in a feed."""
    return f"{row.xid}-{row.id}"


def _present(row: Any) -> dict[str, Any]:
    data = dict(row.data)
    run_id, workflow_id, job_id = data.pop("workflow_run_id", None), data.pop("workflow_id", None), row.job_id
    if row.kind.startswith(("workflow.", "workflow_run.")):
        workflow_id, job_id = row.job_id, None
    told = {"job_id": job_id, "workflow_id": workflow_id, "workflow_run_id": run_id, "data": data}
    return EventShape.of(row, id=id_of(row), **told)


def _rendered(row: Any) -> tuple[str, str, str]:
    return id_of(row), row.kind, json.dumps(_present(row))

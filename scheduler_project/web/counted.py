"""Counts requests and times answers for ``/metrics``, by the pattern of their path.

The patterns come from the code, so a caller cannot invent series. A path that matches no pattern is ``unmatched``, a
method that is not one of HTTP's is ``other``, and the console's pages are one route.
"""

import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from jobs import activity

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_CONSOLE = "admin/"


def count_requests(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """A middleware within ``name_requests``. An error that Django answers counts as an answer like others."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        began = time.monotonic()
        response = get_response(request)
        route = route_of(request)
        method = request.method if request.method in _METHODS else "other"
        activity.count("http_requests", str(method), route, str(response.status_code))
        activity.note_time("http_request_seconds", route, seconds=time.monotonic() - began)
        return response

    return middleware


def route_of(request: HttpRequest) -> str:
    """The pattern that the path matched, such as ``/api/v1/jobs/<uuid:job_id>``."""
    match = request.resolver_match
    if match is None or match.url_name == "unknown":
        return "unmatched"
    return f"/{_CONSOLE}" if match.route.startswith(_CONSOLE) else f"/{match.route}"

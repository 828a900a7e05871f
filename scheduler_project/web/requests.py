"""A name for each request: in its answer's ``X-Request-ID``, in problem documents, and in every log line it causes.

A caller, or a proxy, may name it. A name that is too long for a log line, or could break one, is replaced by a name of
ours. A caller's trace (``traceparent``, ``tracestate``) is also taken, for the log lines and for triggers that the
request makes; a malformed trace counts as absent.
"""

import re
import uuid
from collections.abc import Callable
from typing import Any

from django.core.signals import request_finished
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from jobs.telemetry import carry_caller, carry_request
from jobs.telemetry.traces import w3c

HEADER = "X-Request-ID"
_SOUND = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def name_requests(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """The outermost middleware, so that no answer lacks the header.

    The name is kept after the middleware has returned, because Django then logs an answer that reports an error, and
    streams are written then. ``forget_ended_requests`` ends it; a thread's next request replaces it in any case.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(HEADER, "")
        request_id = given if _SOUND.fullmatch(given) else uuid.uuid4().hex
        carry_request(request_id)
        traceparent = request.headers.get("traceparent")
        carry_caller((traceparent and w3c.read(traceparent, request.headers.get("tracestate", ""))) or None)
        response = get_response(request)
        response.headers[HEADER] = request_id
        return response

    return middleware


def forget_ended_requests() -> None:
    """From now on a thread's log lines between two requests name no request. May be repeated."""
    request_finished.connect(_forget, dispatch_uid="carillon-request-id")


def _forget(**_: Any) -> None:
    carry_request("")
    carry_caller(None)

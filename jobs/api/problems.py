"""Errors as ``application/problem+json`` (RFC 9457): every error under ``/api`` is answered in this one shape.

``type`` is a URN that names the kind; ``errors`` names the fields of a 400 (and of a 409 that is about one). The
detail says what would be right, and never tells a foreign object from a missing one. A database that is away is a 503
with ``Retry-After``. An unforeseen error is a 500 without particulars, logged by Django.
"""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InternalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response

from jobs.actions.jobs import EditedMeanwhile
from jobs.api.parsers import BODY
from jobs.core.errors import (
    MAX_BYTES,
    Conflict,
    Crowded,
    InvalidInput,
    NotFound,
    QuotaExceeded,
    Unavailable,
    bounded,
)
from jobs.engine.pull import StaleFence
from jobs.store import db
from jobs.telemetry import current_request_id

T = TypeVar("T", bound=HttpResponseBase)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5
#: After this many seconds, a request that found no place to wait in may come again.
CROWDED_SECONDS = 2


def problem(status: int, detail: str, *, instance: str, kind: str = "", **members: Any) -> dict[str, Any]:
    """The problem document of the present call. ``kind`` names it within our URN; the HTTP phrase by default."""
    request_id = current_request_id()
    told = {"request_id": request_id} if request_id else {}
    return _document(status, detail, instance=instance, kind=kind, **told, **members)


def _document(status: int, detail: str, *, instance: str, kind: str = "", **members: Any) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    return {
        "type": f"urn:carillon:problem:{kind or title.lower().replace(' ', '-')}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": instance,
        **members,
    }


def problem_handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's exception handler. None hands an unforeseen error on to Django, which logs it and asks ``server_error``.

    A database that is away is logged as one outage, not by Django for each call.
    """
    answer = _translate(error)
    if answer is None:
        return None
    status, detail, members = answer
    headers = members.pop("headers", {})
    request = context.get("request")
    body = problem(status, detail, instance=request.path if request else "", **members)
    response = Response(body, status=status, headers=headers, content_type=MEDIA_TYPE)
    return without_line(response) if is_away(error) else response


def is_away(error: Exception) -> bool:
    """Whether ``error`` says that the database is away, or gave a statement up."""
    return isinstance(error, (Unavailable, *db.TRANSIENT)) or (
        isinstance(error, InternalError) and db.is_away(error)
    )


def without_line(response: T) -> T:
    """``response``, which Django must not log: its reason is in the log already."""
    response._has_been_logged = True  # type: ignore[attr-defined] # as Django marks a logged response
    return response


def problem_of(error: Exception, *, instance: str) -> dict[str, Any]:
    """The problem document of an error of Carillon's, for an item of a list that is answered beside other items."""
    answer = _translate(error)
    if answer is None:
        raise error
    status, detail, members = answer
    members.pop("headers", None)
    return _document(status, detail, instance=instance, **members)


def shorten(problems: Iterable[dict[str, Any]]) -> None:
    """Remove the complaints of those of an answer's ``problems`` that come after ``MAX_BYTES`` of complaints."""
    left = MAX_BYTES
    for problem in problems:
        left -= len(json.dumps(problem.get("errors", [])))
        if left < 0 and problem.get("errors"):
            problem["errors"] = []
            problem["detail"] += " Their names are left out to keep the answer short; send fewer at once."


def _translate(error: Exception) -> tuple[int, str, dict[str, Any]] | None:
    """Status, detail and further members of the problem (``headers`` are the response's)."""
    match error:
        case InvalidInput():
            return (
                400,
                "Some fields were refused.",
                {"kind": "invalid-input", "errors": _errors(error.errors)},
            )
        case NotFound() | Http404() | exceptions.NotFound():
            return 404, "There is no such object.", {}
        case EditedMeanwhile():
            return 412, str(error), {}
        case StaleFence():
            return 409, str(error), {"kind": "stale-fence"}
        case Conflict():
            about = {"errors": _errors({error.field: [str(error)]})} if error.field else {}
            return 409, str(error), about
        case QuotaExceeded():
            members = {"quota": error.quota, "limit": error.limit, "used": error.used}
            return 409, str(error), {"kind": "quota-exceeded", **members}
        case RequestDataTooBig():
            return 413, str(error), {}
        case PermissionDenied():
            return 403, str(error), {}
        case Crowded():
            headers = {"Retry-After": str(CROWDED_SECONDS)}
            return (429 if error.own else 503), str(error), {"headers": headers}
        case _ if is_away(error):
            return _unavailable(error)
        case exceptions.ValidationError():
            errors = _errors(bounded(_flat(error.detail)))
            return 400, "Some fields were refused.", {"kind": "invalid-input", "errors": errors}
        case exceptions.APIException():
            kind = getattr(error, "kind", "")
            return error.status_code, _sentence(error), {"kind": kind, "headers": _headers(error)}
    return None


def _unavailable(error: Exception) -> tuple[int, str, dict[str, Any]]:
    db.note_away(error, what="api")
    detail = "The database did not answer; nothing is known to have changed. Try again."
    return 503, detail, {"headers": {"Retry-After": str(RETRY_AFTER_SECONDS)}}


def _errors(errors: Mapping[str, Iterable[str]]) -> list[dict[str, str]]:
    return [
        {"field": field or BODY, "message": message}
        for field, messages in errors.items()
        for message in messages
    ]


def _flat(detail: Any, path: str = "") -> dict[str, list[str]]:
    """DRF's nested error detail as messages by dotted path."""
    if isinstance(detail, dict):
        found: dict[str, list[str]] = {}
        for name, value in detail.items():
            found |= _flat(value, f"{path}.{name}" if path else str(name))
        return found
    return {path: [str(message) for message in (detail if isinstance(detail, list) else [detail])]}


def _sentence(error: exceptions.APIException) -> str:
    detail = error.detail
    return str(detail) if isinstance(detail, str) else HTTPStatus(error.status_code).phrase


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {
        "WWW-Authenticate": getattr(error, "auth_header", None),
        "Retry-After": getattr(error, "wait", None),
    }
    return {name: str(value) for name, value in headers.items() if value}


@csrf_exempt
def unknown_path(request: HttpRequest) -> HttpResponse:
    """The view of every path below ``/api`` that no endpoint has."""
    body = problem(404, "There is no such object.", instance=request.path)
    return JsonResponse(body, status=404, content_type=MEDIA_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's 400 (for example, a bad Host header)."""
    if not request.path.startswith("/api/"):
        return defaults.bad_request(request, exception)
    body = problem(400, "The request is malformed.", instance=request.path)
    return JsonResponse(body, status=400, content_type=MEDIA_TYPE)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Django's 500: a defect of ours, already logged with its traceback."""
    if not request.path.startswith("/api/"):
        return defaults.server_error(request)
    body = problem(500, "Something went wrong on our side; it has been logged.", instance=request.path)
    return JsonResponse(body, status=500, content_type=MEDIA_TYPE)

"""Checks of a request for all pages of the console: no NUL in its address, and when its operator last wrote."""

from collections.abc import Callable
from datetime import datetime

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from jobs.store import replica

#: In Django's session, where there is a replica: by when all writes of its operator were committed.
WROTE = "wrote_at"


def refuse_nul(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """400 for an address with NUL in it: Postgres takes none in a text. Forms name the input, the API names the field:
    neither is touched.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith("/admin/"):
            in_query = any("\0" in text for name, texts in request.GET.lists() for text in (name, *texts))
            if in_query or "\0" in request.path_info:
                raise SuspiciousOperation("A NUL character in the address.")
        return get_response(request)

    return middleware


def note_writes(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Let a user who pressed a button see its effect on the next page, whichever it is (``last_write``)."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        answer = get_response(request)
        writes = request.method == "POST" and request.path_info.startswith("/admin/")
        if writes and request.session.session_key and (at := replica.now()) is not None:
            request.session[WROTE] = at.isoformat()
        return answer

    return middleware


def last_write(request: HttpRequest) -> datetime | None:
    """By when all writes of the operator in this session were committed; None: there were none, as far as is known."""
    told = request.session.get(WROTE)
    return datetime.fromisoformat(told) if told else None


def wants_present(request: HttpRequest) -> bool:
    """Whether the page must be read from the primary, not a replica: browsers say so where a reload is forced."""
    return "no-cache" in request.headers.get("Cache-Control", "").lower()

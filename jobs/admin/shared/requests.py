"""What no page of the console can look for is refused before one does: Postgres takes no NUL in a text."""

from collections.abc import Callable

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase


def refuse_nul(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """400 for an address with NUL in it. Forms name the input, the API names the field: neither is touched."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith("/admin/"):
            in_query = any("\0" in text for name, texts in request.GET.lists() for text in (name, *texts))
            if in_query or "\0" in request.path_info:
                raise SuspiciousOperation("A NUL character in the address.")
        return get_response(request)

    return middleware

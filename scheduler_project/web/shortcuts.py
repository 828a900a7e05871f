"""Middlewares of Django and django-csp without what they would do in vain at every call of the API."""

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware


class PagePolicy(CSPMiddleware):
    """No policy is made for an answer that has its own, as those of the API have."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if HEADER in response else super().process_response(request, response)


class Slashes(CommonMiddleware):
    """No page is looked for below ``/api``: every path there is one, if only to say that it is unknown."""

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        if request.path_info.startswith("/api/"):
            return False
        return bool(super().should_redirect_with_slash(request))

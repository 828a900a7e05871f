"""Middlewares of Django and django-csp that look at answers, without their useless or dangerous parts.

Pages of the console and static texts are sent compressed; answers of the API and streams are left as they are. A page
is compressed as Django does it: with up to 100 random bytes more each time. So an attacker that counts bytes on the
wire does not learn whether a guess in the page's address is also a secret in the page (BREACH). The CSRF token also
gets a new mask in each page.
"""

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware

_TEXTS = ("text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml")


class CompressTexts(GZipMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_text = response.get("Content-Type", "").partition(";")[0] in _TEXTS
        is_ours = request.path_info.startswith(("/admin/", "/static/"))
        if not (is_text and is_ours and response.status_code == 200 and request.method != "HEAD"):
            return response
        return super().process_response(request, response)


class PagePolicy(CSPMiddleware):
    """No policy is made for an answer that has its own, as answers of the API do."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if HEADER in response else super().process_response(request, response)


class Slashes(CommonMiddleware):
    """No page is searched for below ``/api``: every path there has a view, even if it only says: unknown path."""

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        if request.path_info.startswith("/api/"):
            return False
        return bool(super().should_redirect_with_slash(request))

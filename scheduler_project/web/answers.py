"""Middlewares of Django and django-csp that look at answers, without what they would do in vain, or in danger.

Pages of the console and static texts are sent compressed; answers of the API and streams are left as they are. A page
is compressed as Django does it: with up to 100 random bytes more each time. Who counts bytes on the wire then does not
learn whether a guess in the page's address is also a secret in the page (BREACH). Its CSRF token is masked anew in each
page besides.
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
    """No policy is made for an answer that has its own, as those of the API have."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if HEADER in response else super().process_response(request, response)


class Slashes(CommonMiddleware):
    """No page is looked for below ``/api``: every path there is one, if only to say that it is unknown."""

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        if request.path_info.startswith("/api/"):
            return False
        return bool(super().should_redirect_with_slash(request))

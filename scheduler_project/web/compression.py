"""Pages of the console and static texts are sent compressed; answers of the API and streams are left as they are.

A page is compressed as Django does it: with up to 100 random bytes more each time. Who counts bytes on the wire then
does not learn whether a guess in the page's address is also a secret in the page (BREACH). Its CSRF token is masked
anew in each page besides.
"""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_TEXTS = ("text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml")


class CompressTexts(GZipMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_text = response.get("Content-Type", "").partition(";")[0] in _TEXTS
        is_ours = request.path_info.startswith(("/admin/", "/static/"))
        if not (is_text and is_ours and response.status_code == 200 and request.method != "HEAD"):
            return response
        return super().process_response(request, response)

"""The answer to an operator in place of a page that is not there, or closed: why, and where to go on.

Others get Django's bare page: they need no more, and it costs nothing. ``jobs.api`` answers calls of the API.
"""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.views import defaults


def missing(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's ``handler404``."""
    if not _is_operators(request):
        return defaults.page_not_found(request, exception)
    return _page(request, "admin/404.html", 404, "Not found")


def denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's ``handler403``."""
    if not _is_operators(request):
        return defaults.permission_denied(request, exception)
    return _page(request, "admin/403.html", 403, "Not allowed")


def _is_operators(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_active and user.is_staff and request.path.startswith("/admin/")


def _page(request: HttpRequest, template: str, status: int, title: str) -> HttpResponse:
    context = admin.site.each_context(request) | {"title": title}
    # Rendered here: Django's handlers return a response that is finished.
    return TemplateResponse(request, template, context, status=status).render()

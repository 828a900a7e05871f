"""The bases of the console's pages that are neither a list nor a row of a table."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.views.generic import TemplateView

from tenants.console.reach import is_within_reach


class ConsolePage(TemplateView):
    """A page for users who are signed in and hold ``permission``; ``jobs.admin.urls`` gives it its address.

    A fragment that a page fetches again and again is such a page too, with a template of its own.
    """

    title: str
    permission: str

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., Any]:
        return admin.site.admin_view(super().as_view(**initkwargs))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not self.is_permitted(request):
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    def is_permitted(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(self.permission))  # type: ignore[union-attr]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            **(admin.site.each_context(self.request) | {"title": self.title} | kwargs)
        )


class InstallationPage(ConsolePage):
    """A page about the installation as a whole: not for operators who are bound to tenants."""

    def is_permitted(self, request: HttpRequest) -> bool:
        return super().is_permitted(request) and is_within_reach(request.user, None)

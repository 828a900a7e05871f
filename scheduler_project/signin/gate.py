"""The gate: it lets operators pass that gave the code of their second factor, and operators that need none.

An operator that needs a second factor and has none is led to set it up before anything else. An operator that has one,
in a session that began without it (before the setting was switched on, say), is asked to sign in again. The API and its
keys are not asked.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse

from scheduler_project.web.sessions import login_then
from tenants.models import SecondFactor

#: A mark in Django's session: its operator gave a code, or set the second factor up in this session.
PASSED = "second_factor_passed"

_ALWAYS = ("admin:login", "admin:logout", "sign_in_code", "sign_in_oidc", "sign_in_oidc_back")


def ask_for_second_factor(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Redirect to the code's page, or to the page for setting up a second factor."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        leads_to = _leads_to(request) if settings.SECOND_FACTOR != "off" else ""
        if not leads_to:
            return get_response(request)
        if request.headers.get("HX-Request"):  # a part of a page cannot show another page
            return HttpResponse(headers={"HX-Redirect": leads_to})
        return HttpResponseRedirect(leads_to)

    return middleware


def account_links(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's ``ACCOUNT["navigation"]``; empty: Unfold's own links."""
    if settings.SECOND_FACTOR == "off":
        return []
    change = {"title": "Change password", "link": reverse("admin:password_change")}
    return [change, {"title": "Second factor", "link": reverse("second_factor")}]


def _leads_to(request: HttpRequest) -> str:
    """The address that a request is led to instead of its page; empty: it gets its page."""
    if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.path_info.startswith(
        reverse("admin:index")
    ):
        return ""
    if not request.user.is_authenticated or request.session.get(PASSED):
        return ""
    if request.path_info in map(reverse, _ALWAYS):
        return ""
    if SecondFactor.objects.filter(pk=request.user.pk).exists():
        again = login_then(request)
        logout(request)
        messages.info(
            request, "You were signed out: this account has a second factor. Sign in with its code."
        )
        return again
    own = reverse("second_factor")
    return own if settings.SECOND_FACTOR == "required" and request.path_info != own else ""

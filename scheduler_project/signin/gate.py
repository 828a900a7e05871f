"""The gate: behind it are those who gave the code of their second factor, and those who need none.

An operator who needs one and has none is led to set it up before anything else. One who has one, in a session that
began without (before the setting was switched on, say), is asked to sign in again. The API and its keys are not asked.
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

#: In Django's session: its operator gave a code, or set the second factor up in it.
PASSED = "second_factor_passed"

_ALWAYS = ("admin:login", "admin:logout", "sign_in_code", "sign_in_oidc", "sign_in_oidc_back")


def ask_for_second_factor(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """To the code, or to the page on which to set a second factor up."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        leads_to = _leads_to(request) if settings.SECOND_FACTOR != "off" else ""
        if not leads_to:
            return get_response(request)
        if request.headers.get("HX-Request"):  # a part of a page has no place for another page
            return HttpResponse(headers={"HX-Redirect": leads_to})
        return HttpResponseRedirect(leads_to)

    return middleware


def account_links(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's ``ACCOUNT["navigation"]``; empty: its own."""
    if settings.SECOND_FACTOR == "off":
        return []
    change = {"title": "Change password", "link": reverse("admin:password_change")}
    return [change, {"title": "Second factor", "link": reverse("second_factor")}]


def _leads_to(request: HttpRequest) -> str:
    """Where a request is led instead of its page; empty: nowhere."""
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

"""Logins of the console: each is a line of the log with the caller's address, and tries are limited (ADR 28).

Tries are counted by address and by user name, before the password is checked, so that many at once count like many in
a row. Tries of a second factor's code are counted, too, and tries of the password on the page of one's own second
factor. They are counted like all rates (``jobs.limits``); while Redis is away each process counts by itself. A failed
try is also on the audit trail. A sign-in is there by its session (``scheduler_project.web.sessions``).
"""

import hashlib
import math
from collections.abc import Callable
from functools import cache
from ipaddress import IPv6Address, ip_network
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from jobs.limits import Bucket, RateStatus, shared_buckets
from jobs.models import Change
from jobs.store import trail
from jobs.telemetry import Outage, get_logger
from scheduler_project.signin.held import held_sign_in
from scheduler_project.web.forwarded import address_of

log = get_logger()
#: For one address: this many at once, then one every ten seconds.
ADDRESS_BURST, ADDRESS_PER_SECOND = 10, 0.1
#: For one user name from any address: more tries, since a caller that reaches this limit also keeps the user out.
USER_BURST, USER_PER_SECOND = 100, 1 / 30
#: For codes of one operator. A caller that tries codes has the password, so keeping the user out is no new harm. Three
#: codes of a million are valid at any time.
CODE_BURST, CODE_PER_SECOND = 10, 1 / 120
#: For entries on the audit trail about failed tries for unknown names: a caller can make up any number of names.
UNKNOWN_BURST, UNKNOWN_PER_SECOND = 20, 1 / 60
_refused = Outage("logins refused")


class TooManyTries(Exception):
    """Too many tries from one address, or for one user name."""


def limit_logins(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer 429 to a try over the limit; the right password is refused like the others."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.method == "POST" or request.path_info in _asks_the_provider():
            address = request.META.get("REMOTE_ADDR", "")
            for bucket in _buckets_of(request, address):
                status: RateStatus = shared_buckets().take(bucket)
                if not status.granted:
                    _refused.failed(TooManyTries(bucket.key.partition(":")[0]), address=address)
                    return _too_many(status)
        return get_response(request)

    return middleware


def _buckets_of(request: HttpRequest, address: str) -> tuple[Bucket, ...]:
    """The buckets from which a request that tries a password or a code takes a token; none: it tries nothing."""
    if request.path_info == _path("admin:login"):
        return _buckets(address, request.POST.get("username", ""))
    if request.path_info in _asks_the_provider():
        return _buckets(address, "")[:1]
    if request.path_info == _path("sign_in_code") and (held := held_sign_in(request)):
        by_address, _ = _buckets(address, "")
        return by_address, Bucket(f"login-code:{held.operator.pk}", CODE_PER_SECOND, CODE_BURST)
    if request.path_info == _path("second_factor") and request.user.is_authenticated:
        return _buckets(address, request.user.get_username())
    return ()


@cache
def _path(name: str) -> str:
    """The path of a page. Every call of the API is compared with some of them."""
    return reverse(name)


def _asks_the_provider() -> tuple[str, str]:
    """Pages for which the identity provider is called: a caller without a name must not do that at will."""
    return _path("sign_in_oidc"), _path("sign_in_oidc_back")


def _buckets(address: str, username: str) -> tuple[Bucket, Bucket]:
    # Callers make up names, and a name may be a password that was typed into the wrong field.
    name = hashlib.sha256(username.strip().lower().encode("utf-8", "replace")).hexdigest()[:32]
    return (
        Bucket(f"login-address:{_neighbourhood(address)}", ADDRESS_PER_SECOND, ADDRESS_BURST),
        Bucket(f"login-user:{name}", USER_PER_SECOND, USER_BURST),
    )


def _neighbourhood(address: str) -> str:
    """The addresses that one caller has: an IPv4 address, or the /64 of an IPv6 address."""
    known = address_of(address)
    return str(ip_network((known, 64), strict=False)) if isinstance(known, IPv6Address) else str(known)


def _too_many(status: RateStatus) -> HttpResponse:
    wait = max(1, math.ceil(status.retry_after_seconds))
    return HttpResponse(
        f"Too many login attempts. Try again in {wait} s.\n",
        status=429,
        content_type="text/plain",
        headers={"Retry-After": str(wait)},
    )


def follow_logins() -> None:
    """Log each login from now on. May be repeated."""
    user_logged_in.connect(_note_login, dispatch_uid="carillon-login")
    user_login_failed.connect(_note_failure, dispatch_uid="carillon-login-failed")


def _note_login(request: HttpRequest, user: Any, **_: Any) -> None:
    log.info("login", user=user.get_username(), address=request.META.get("REMOTE_ADDR", ""))


def _note_failure(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """The name is logged only if a user has it: an unknown name may be a password."""
    given = str(credentials.get("username", ""))
    users = get_user_model()._default_manager.filter(username=given)
    known = users.values_list("pk", flat=True).first() if "\0" not in given else None
    name, address = given if known else "(nobody)", request.META.get("REMOTE_ADDR", "") if request else ""
    log.warning("login failed", user=name, address=address)
    if known or shared_buckets().take(Bucket("login-unknown", UNKNOWN_PER_SECOND, UNKNOWN_BURST)).granted:
        _tell_of_failure(known or "", name, address=[None, address])


def note_wrong_code(request: HttpRequest, operator: Any) -> None:
    """The password was right, the code was not."""
    address = request.META.get("REMOTE_ADDR", "")
    log.warning("login failed", user=operator.get_username(), address=address, code="wrong")
    _tell_of_failure(operator.pk, operator.get_username(), address=[None, address], code=[None, "wrong"])


def note_stranger(request: HttpRequest, *, by: str, subject: str) -> None:
    """A person that the identity provider knows, but no operator is linked to."""
    address = request.META.get("REMOTE_ADDR", "")
    log.warning("login failed", user="(nobody)", address=address, by=by, subject=subject)
    if shared_buckets().take(Bucket("login-unknown", UNKNOWN_PER_SECOND, UNKNOWN_BURST)).granted:
        told = {"address": [None, address], "by": [None, by], "subject": [None, subject]}
        _tell_of_failure("", "(nobody)", **told)


def _tell_of_failure(operator: object, name: str, **changes: Any) -> None:
    trail.note(
        tenant_id=None,
        kind=Change.Kind.USER,
        object_id=operator,
        name=name,
        action=Change.Action.SIGN_IN_FAILED,
        changes=changes,
    )

"""Sessions of the console: each is a row with its operator, its address, its beginning and when it was last seen.

A request under a session without a row is not signed in. So a session ends when its row is deleted: by signing out, by
an operator, or here, too long after the sign-in or after a while without activity. Times are the database's. The
table tells the audit trail of each row that comes and goes (migration 0007 of jobs).

Pages that refresh themselves do not keep a session alive: only people's own actions count.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse

from jobs.store.trail.actor import ENGINE, Actor, ActorKind, acting_as
from tenants.clock import DatabaseNow, database_now
from tenants.models import OperatorSession

#: The name of the row's key in Django's session.
KEY = "operator_session"
#: ``seen_at`` is written at most this often, so that not every read becomes a write.
SEEN_EVERY = timedelta(minutes=1)


def keep_sessions(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Sign out operators whose session is over, and note that the others were seen."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
            why = _look(request)
            if why:
                request.session.flush()
                request.user = AnonymousUser()
                messages.info(request, f"You were signed out: {why}")
                if request.headers.get("HX-Request"):  # a part of a page cannot show the login page
                    return HttpResponse(headers={"HX-Redirect": login_then(request)})
        return get_response(request)

    return middleware


def _look(request: HttpRequest) -> str:
    """Why the session is over; empty: it goes on."""
    rows = OperatorSession.objects.filter(pk=request.session.get(KEY, 0), operator_id=request.user.pk)
    row: Any = rows.annotate(now=DatabaseNow()).first()
    if row is None:
        return "your session was ended."
    why, platform = "", settings.PLATFORM
    if row.now - row.began_at >= timedelta(hours=platform.session_hours):
        why = f"a login lasts {platform.session_hours:g} hours."
    elif platform.session_idle_minutes and row.now - row.seen_at >= timedelta(
        minutes=platform.session_idle_minutes
    ):
        why = f"there was no activity for {platform.session_idle_minutes:g} minutes."
    if why:
        with acting_as(ENGINE):
            rows.delete()
    elif _is_done_by_somebody(request) and row.now - row.seen_at >= SEEN_EVERY:
        rows.update(seen_at=DatabaseNow())
    return why


def _is_done_by_somebody(request: HttpRequest) -> bool:
    """Whether a page was opened or a form was sent. Scripts use GET, and browsers mark that as no navigation."""
    mode = request.headers.get("Sec-Fetch-Mode")
    is_page = "HX-Request" not in request.headers if mode is None else mode == "navigate"
    return request.method != "GET" or is_page


def login_then(request: HttpRequest) -> str:
    """The address of the login page, which leads back to the page that the part belongs to."""
    page = urlsplit(request.headers.get("HX-Current-URL", "")).path or reverse("admin:index")
    query = QueryDict(mutable=True)
    query["next"] = page
    return f"{reverse('admin:login')}?{query.urlencode()}"


def follow_sessions() -> None:
    """Keep a row of each session from now on. May be repeated."""
    user_logged_in.connect(_begin, dispatch_uid="carillon-session-begun")
    user_logged_out.connect(_end, dispatch_uid="carillon-session-ended")


def end_others(request: HttpRequest) -> None:
    """End all sessions of the request's operator but this one."""
    others = OperatorSession.objects.filter(operator_id=request.user.pk)
    others.exclude(pk=request.session.get(KEY, 0)).delete()


def _begin(request: HttpRequest, user: Any, **_: Any) -> None:
    now = database_now()
    with acting_as(ENGINE):
        # Delete sessions that are over and that no request has ended.
        over = now - timedelta(hours=settings.PLATFORM.session_hours)
        OperatorSession.objects.filter(began_at__lt=over).delete()
    with acting_as(Actor(ActorKind.OPERATOR, user.get_username())):
        OperatorSession.objects.filter(
            pk=request.session.get(KEY, 0)
        ).delete()  # signed in over another session
        address = request.META.get("REMOTE_ADDR", "")[:64]
        row = OperatorSession.objects.create(
            operator=user,
            began_at=now,
            seen_at=now,
            address=address,
            signed_in_by=getattr(request, "signed_in_by", "password"),
        )
    request.session[KEY] = row.pk


def _end(request: HttpRequest, **_: Any) -> None:
    OperatorSession.objects.filter(pk=request.session.get(KEY, 0)).delete()

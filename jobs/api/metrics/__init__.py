"""``/metrics`` for Prometheus: activity, the backlog and its lag, leadership (``jobs.api.metrics.families``).

Figures come from the database, so that every web process tells the same. They are kept for a few seconds, so that
frequent scrapes cost no more. While the database is away, ``carillon_up`` is 0 and only the families that say whether
the broker and the replica answer are shown. A caller with ``CARILLON_METRICS_TOKEN`` may read the page. If no token is
set, only callers from this machine may, if they come through no proxy.
"""

import hmac
import time
from datetime import timedelta
from ipaddress import ip_address
from threading import Lock

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest

from jobs.api.metrics.families import Families
from jobs.api.views.health import broker_answers, database_answers
from jobs.conf import engine_settings
from jobs.store import db
from jobs.store.insight.metrics import Figures, figures

KEPT_SECONDS = 5.0
#: A page that takes longer to make waits for a database that is frozen. Prometheus gives up a scrape after ten.
PATIENCE_SECONDS = 3.0
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Headers that Prometheus and curl send. Any other header may be a proxy's, and a proxy's address says nothing.
_PLAIN = {
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie", "host",
    "user-agent", "x-prometheus-scrape-timeout-seconds",
}  # fmt: skip


class _Kept:
    """The page as it was last made. One thread makes it; others wait for it, or get one that is young enough.

    A thread that waits for longer than ``PATIENCE_SECONDS`` takes the database for away.
    """

    def __init__(self) -> None:
        self._lock, self._text, self._until = Lock(), b"", 0.0

    def page(self) -> bytes:
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            return _exposition_of(None)
        try:
            if time.monotonic() >= self._until:
                self._text = exposition()
                self._until = time.monotonic() + KEPT_SECONDS
            return self._text
        finally:
            self._lock.release()

    def forget(self) -> None:
        self._until = 0.0


kept = _Kept()


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """200 with the text format of Prometheus; 401 for a caller that may not read it."""
    if not may_read(request):
        return HttpResponse(
            "Send CARILLON_METRICS_TOKEN as Authorization: Bearer; if none is set, call from the same "
            "machine.\n",
            status=401,
            content_type="text/plain",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return HttpResponse(kept.page(), content_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


def may_read(request: HttpRequest) -> bool:
    """By the token where one is set, and otherwise by whether the caller is on this machine."""
    if token := settings.METRICS_TOKEN:
        given = request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode())
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:  # a Unix socket, which the server before it shares with all callers
        return False
    own = getattr(address, "ipv4_mapped", None) or address
    return own.is_loopback and all(name.lower() in _PLAIN for name in request.headers)


def exposition() -> bytes:
    """The page as it is now."""
    # A frozen database lets a statement wait for ever. So ask first over a connection that does not.
    if database_answers() is None:
        return _exposition_of(None)
    try:
        retention = timedelta(days=engine_settings().history_days)
        found: Figures | None = figures(retention=retention)
    except db.TRANSIENT as error:
        db.note_away(error, what="metrics")
        found = None
    return _exposition_of(found)


def _exposition_of(found: Figures | None) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(found, broker=broker_answers()))
    return generate_latest(registry)

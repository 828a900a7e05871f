"""``/metrics`` for Prometheus: what happened, what is due and how late, who leads (``jobs.api.metrics.families``).

All of it comes from the database, so that every web process tells the same, and is kept for a few seconds, so that
scraping often costs no more. While the database is away the page says that: ``carillon_up`` is 0 and nothing else is
told of it. Whoever has ``CARILLON_METRICS_TOKEN`` may read it; where none is set, callers from this machine that come
through no proxy.
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
#: A page that takes longer to make waits for a database that is frozen. Prometheus gives a scrape up after ten.
PATIENCE_SECONDS = 3.0
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: What Prometheus and curl send of themselves. Any other header may be a proxy's, whose own address says nothing.
_PLAIN = {
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie", "host",
    "user-agent", "x-prometheus-scrape-timeout-seconds",
}  # fmt: skip


class _Kept:
    """The page as it was last made. One thread makes it; others wait for it, or get what is young enough.

    To those who wait for longer than ``PATIENCE_SECONDS`` the database is away.
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
    """200 with the text format of Prometheus; 401 for whoever may not read it."""
    if not may_read(request):
        return HttpResponse(
            "Send CARILLON_METRICS_TOKEN as Authorization: Bearer; without one set, ask from the same machine.\n",
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
    except ValueError:  # a socket of the machine's, which whoever stands before it shares with all
        return False
    own = getattr(address, "ipv4_mapped", None) or address
    return own.is_loopback and all(name.lower() in _PLAIN for name in request.headers)


def exposition() -> bytes:
    """The page as it is now."""
    # One that is frozen lets a statement wait for ever; it is asked by a connection that does not.
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

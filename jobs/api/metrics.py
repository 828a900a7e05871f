"""``/metrics`` for Prometheus: what is queued, how late, who leads, how clocks stand, what became of attempts.

All of it comes from the database, so that every web process tells the same, and is kept for a few seconds, so that
scraping often costs no more. While the database is away the page says that: ``carillon_up`` is 0 and nothing else is
told of it. Whoever has ``CARILLON_METRICS_TOKEN`` may read it; where none is set, callers from this machine that come
through no proxy.
"""

import hmac
import time
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from threading import Lock

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.api.views.health import broker_answers, database_answers
from jobs.store import db
from jobs.store.insight.metrics import Figures, figures
from jobs.store.insight.workers import shared_names

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
        found: Figures | None = figures()
    except db.TRANSIENT as error:
        db.note_away(error, what="metrics")
        found = None
    return _exposition_of(found)


def _exposition_of(found: Figures | None) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(found, broker=broker_answers()))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, found: Figures | None, *, broker: bool) -> None:
        self._found, self._broker = found, broker

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("carillon_up", "1: the database answers.", value=int(self._found is not None))
        yield GaugeMetricFamily("carillon_broker_up", "1: the broker answers.", value=int(self._broker))
        if self._found is not None:
            yield from _of_queues(self._found)
            yield from _of_processes(self._found)
            yield from _of_firings(self._found)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"carillon_{name}", text, labels=labels)


def _of_queues(found: Figures) -> Iterator[Metric]:
    in_flight = _gauge("in_flight_triggers", "Triggers queued or running.", "job_type", "state")
    oldest = _gauge("in_flight_oldest_seconds", "Since the oldest of them was queued.", "job_type", "state")
    for row in found.in_flight:
        in_flight.add_metric((row.job_type, row.state), row.count)
        oldest.add_metric((row.job_type, row.state), row.oldest_seconds)
    lag = _gauge(
        "lag_seconds", "How late the oldest trigger is that is due and not yet dispatched.", "job_type"
    )
    for row in found.waiting:
        lag.add_metric((row.job_type,), row.lag_seconds)
    window = _gauge("queue_window", "Triggers that may be queued at once.", "job_type")
    rate = _gauge("queue_claims_per_second", "What workers claimed when it was last measured.", "job_type")
    dispatched = CounterMetricFamily("carillon_dispatched", "Triggers queued, ever.", labels=("job_type",))
    for row in found.queues:
        window.add_metric((row.job_type,), row.window)
        rate.add_metric((row.job_type,), row.rate)
        dispatched.add_metric((row.job_type,), row.dispatched)
    yield from (in_flight, oldest, lag, window, rate, dispatched)


def _of_processes(found: Figures) -> Iterator[Metric]:
    term = _gauge("lease_term", "Leaderships so far; goes up with each new leader.", "lease", "holder")
    left = _gauge(
        "lease_seconds_left", "Until the lease runs out; below 0: nobody has it.", "lease", "holder"
    )
    for row in found.leases:
        term.add_metric((row.name, row.holder), row.term)
        left.add_metric((row.name, row.holder), row.seconds_left)
    offset = _gauge("clock_offset_seconds", "How far a clock is ahead of the database's.", "process")
    within = _gauge("clock_offset_within_seconds", "How exactly that is known.", "process")
    passed = CounterMetricFamily(
        "carillon_rate_limit_bypassed",
        "Firings rated by this process alone, as Redis was away.",
        labels=("process",),
    )
    for row in found.clocks:
        passed.add_metric((row.name,), row.rate_limit_bypassed)
        offset.add_metric((row.name,), row.offset_seconds)
        within.add_metric((row.name,), row.within_seconds)
    serving = _gauge("workers", "Workers that take from a queue.", "queue")
    for queue, count in Counter(queue for worker in found.workers for queue in worker.queues).items():
        serving.add_metric((queue,), count)
    shared = GaugeMetricFamily(
        "carillon_worker_names_shared",
        "Node names that several workers have.",
        value=len(shared_names(found.workers)),
    )
    yield from (term, left, offset, within, passed, serving, shared)


def _of_firings(found: Figures) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "carillon_materialized", "Triggers made, ever.", value=found.statistics.materialized
    )
    yield CounterMetricFamily(
        "carillon_duplicates_prevented",
        "Effects of ctx.once that were found made already, ever.",
        value=found.statistics.duplicates_prevented,
    )
    attempts = _gauge(
        "attempts_last_minute", "Attempts begun in the last minute, of 10,000 at most.", "state"
    )
    for row in found.outcomes:
        attempts.add_metric((row.state,), row.count)
    yield attempts

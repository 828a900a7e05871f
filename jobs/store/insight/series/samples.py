"""Samples: how much waited and ran, and how many slots there were, over time. The leader takes them for charts.

The figures are those that ``/metrics`` reads, each of them bounded. There is one row per job type and step, and one of
all types together; the types that tenants declare are one. So only few rows are kept, however much work there is, and
no chart reads more than ``MAX_STEPS`` of them.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from jobs.core.activity import label_of
from jobs.store import db
from jobs.store.insight import workers
from jobs.store.insight.metrics import MAX_LANES, MAX_OF_LANE, MAX_PARKED
from jobs.store.insight.outcomes import Window, extent

_SQL, _METRICS = db.queries("samples"), db.queries("metrics")
#: How often the leader looks.
EVERY = timedelta(seconds=30)
#: The steps that are kept, and for how long each: as far back as charts show it.
STEPS = {
    EVERY: timedelta(hours=7),
    timedelta(minutes=10): timedelta(days=8),
    timedelta(hours=1): timedelta(days=91),
}
MAX_STEPS = 2_184
#: The type that stands for all.
ALL_TYPES = ""
FIGURES = ("due", "parked", "queued", "running", "slots", "lag_seconds")


def take() -> None:
    """Take a sample, and keep it. Six statements; done twice, it has the same result."""
    rows = [{"job_type": job_type, **seen} for job_type, seen in sorted(_seen().items())]
    _SQL["keep"](steps=[_seconds(step) for step in STEPS], rows=orjson.dumps(rows).decode())


def purge() -> None:
    """Delete samples that no chart shows any more."""
    _SQL["purge"](steps=[_seconds(step) for step in STEPS], kept=list(STEPS.values()))


def series(
    *, window: Window, job_type: str = ALL_TYPES
) -> tuple[datetime, datetime, list[Mapping[str, float] | None]]:
    """The beginning and the end of the window, and the figures of each bucket of it; None: no sample was taken."""
    since, until, count = extent(window)
    step = next(step for step, kept in STEPS.items() if window.span <= kept)
    rows = _SQL["series"](
        step=_seconds(step),
        job_type=job_type,
        since=since,
        until=until,
        bucket_seconds=_seconds(window.bucket),
    )
    seen = {min(row.bucket, count - 1): {name: getattr(row, name) for name in FIGURES} for row in rows}
    return since, until, [seen.get(number) for number in range(count)]


def _seen() -> dict[str, dict[str, float]]:
    """The present figures by job type, and of all types."""
    counts: dict[str, Counter[str]] = {ALL_TYPES: Counter()}
    lags: dict[str, float] = {}

    def note(job_type: str, what: str, number: int) -> None:
        for name in (label_of(job_type), ALL_TYPES):
            counts.setdefault(name, Counter())[what] += number

    def late(job_type: str, seconds: float) -> None:
        for name in (label_of(job_type), ALL_TYPES):
            lags[name] = max(seconds, lags.get(name, 0.0))

    for row in _METRICS["queues"]():
        counts.setdefault(label_of(row.job_type), Counter())
    for row in _METRICS["in_flight"]():
        note(row.job_type, row.state, row.count)
    for row in _METRICS["due"](lanes=MAX_LANES, limit=MAX_OF_LANE):
        note(row.job_type, "due", row.count)
        late(row.job_type, row.lag_seconds)
    for row in _METRICS["parked"](limit=MAX_PARKED):
        note(row.job_type, "parked", row.count)
        late(row.job_type, row.lag_seconds)
    for worker in workers.present():
        counts[ALL_TYPES]["slots"] += worker.concurrency
        for name in {label_of(queue.removeprefix("jobs.")) for queue in worker.queues}:
            counts.setdefault(name, Counter())["slots"] += worker.concurrency
    return {name: _row(seen, lags.get(name, 0.0)) for name, seen in counts.items()}


def _row(seen: Counter[str], lag_seconds: float) -> dict[str, Any]:
    return {name: seen[name] for name in FIGURES[:-1]} | {"lag_seconds": lag_seconds}


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())

"""Counters and histograms of ``/metrics``: what happened by tenant and job type, and what processes tell of themselves.

Sums over all processes, as ``jobs_activitytotal`` and ``jobs_owntotal`` hold them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from jobs.core.activity import (
    BOUNDS,
    DURATION_BUCKETS,
    DURATION_SUM,
    LAG_BUCKETS,
    LAG_SUM,
    SECONDS_BUCKETS,
    SECONDS_SUM,
    SKIPS,
    TIMES,
)
from jobs.core.states import DEAD_REASONS, AttemptState
from jobs.store.insight.activity import ERRORS, RUN_SECONDS, RUNS

_WHOSE = ("job_type", "tenant")
_LES = (*map(floatToGoString, BOUNDS), "+Inf")
#: Counters of one kind each: name, kind and help.
_COUNTERS = (
    ("triggers_created", "created", "Triggers made: firings, runs now, notices, tasks. Alarm when it stands still."),
    ("triggers_withdrawn", "withdrawn", "Triggers removed before they were due: an edit or an outage replaced them."),
    ("dispatched", "dispatched", "Triggers queued. Compare with carillon_triggers_created: less is a backlog."),
    (
        "handed_back",
        "handed_back",
        "Queued triggers taken back: publishing failed, the job changed, or a worker was crowded. Look at the beat's "
        "and the broker's log when it is more than a few percent of carillon_dispatched.",
    ),
    (
        "messages_lost",
        "messages_lost",
        "Queued triggers that no worker claimed by the deadline. Look for workers of that queue, then at the broker.",
    ),
    ("attempts_started", "started", "Attempts that workers claimed: the pace of the workers."),
    ("retries", "retried", "Attempts that will be repeated. Alarm on its share of carillon_attempts_started."),
    ("triggers_cancelled", "cancelled", "Triggers that a caller, an operator or a policy ended."),
    ("triggers_replayed", "replayed", "Ended triggers sent through once more."),
    ("duplicates_prevented", "duplicates_prevented", "Effects of ctx.once that were found made already, and left out."),
)  # fmt: skip


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"carillon_{name}", text, labels=labels)


def of_tenants(rows: Sequence[Any]) -> Iterator[Metric]:
    of_all = [row for row in rows if row.tenant is None]
    totals = [row for row in rows if row.tenant is not None]
    for name, kind, text in _COUNTERS:
        counter = _counter(name, text, *_WHOSE)
        for row in totals:
            counter.add_metric((row.job_type, row.tenant), getattr(row, kind) or 0)
        yield counter
    ends = [state.value for state in AttemptState if state is not AttemptState.STARTED]
    yield _by_cause(
        totals,
        _counter(
            "attempts_ended",
            "Attempts by how they ended. Alarm on the share of failed, timed_out and lost; lost is a worker that died, "
            "stale an outcome that came after its lease.",
            *_WHOSE,
            "outcome",
        ),
        {state: f"ended_{state}" for state in ends},
    )
    yield _by_cause(
        totals,
        _counter(
            "dead_letters",
            "Triggers given up, by reason. Look at the dead letters; replay them when their cause is gone.",
            *_WHOSE,
            "reason",
        ),
        {reason: f"buried_{reason}" for reason in DEAD_REASONS},
    )
    yield _by_cause(
        totals,
        _counter(
            "triggers_skipped",
            "Firings that did not run, by reason. misfire and coalesced: Carillon was late; overlap: the job takes "
            "longer than its period.",
            *_WHOSE,
            "reason",
        ),
        SKIPS,
    )
    lags = "Set the objective on its p99. What has not started at all is in carillon_lag_seconds."
    yield _histogram(
        of_all,
        "start_lag_seconds",
        f"From when an attempt was due to its start. {lags}",
        "job_type",
        LAG_BUCKETS,
        LAG_SUM,
    )
    yield _histogram(
        totals,
        "tenant_start_lag_seconds",
        f"The same by tenant: one that floods waits for itself; others must not. {lags}",
        "tenant",
        LAG_BUCKETS,
        LAG_SUM,
    )
    yield _histogram(
        of_all,
        "attempt_duration_seconds",
        "From an attempt's start to its outcome. A target or handler that has become slow shows here first.",
        "job_type",
        DURATION_BUCKETS,
        DURATION_SUM,
    )


def _by_cause(
    totals: Sequence[Any], counter: CounterMetricFamily, kinds: Mapping[str, str]
) -> CounterMetricFamily:
    for row in totals:
        for cause, kind in kinds.items():
            count = getattr(row, kind)
            # A series that begins above 0 hides its first increase; those of the rest are always there.
            if count is not None or row.tenant == "other":
                counter.add_metric((row.job_type, row.tenant, cause), count or 0)
    return counter


def _histogram(
    rows: Sequence[Any], name: str, text: str, label: str, buckets: Sequence[str], sum_kind: str
) -> HistogramMetricFamily:
    """Rows of one label's value are added up."""
    times: dict[tuple[str, ...], Counter[str]] = {}
    for row in rows:
        of_value = times.setdefault((getattr(row, label),), Counter())
        for kind in (*buckets, sum_kind):
            of_value[kind] += getattr(row, kind) or 0
    return _histogram_of(times, name, text, (label,), buckets, sum_kind)


def _histogram_of(
    times: Mapping[tuple[str, ...], Mapping[str, int]],
    name: str,
    text: str,
    labels: Sequence[str],
    buckets: Sequence[str],
    sum_kind: str,
) -> HistogramMetricFamily:
    """``times``: counts by bucket, and the sum in microseconds, by the values of the labels."""
    family = HistogramMetricFamily(f"carillon_{name}", text, labels=labels)
    for values, counts in times.items():
        below = accumulate(counts[bucket] for bucket in buckets)
        family.add_metric(values, list(zip(_LES, below, strict=True)), sum_value=counts[sum_kind] / 1_000_000)
    return family


#: What processes tell of themselves (``jobs.activity``): by its name there, labels and help.
_OWN_COUNTERS: dict[str, tuple[tuple[str, ...], str]] = {
    ERRORS: (
        ("job_type", "error_code"),
        "Attempts that failed or timed out, by error code; codes that handlers make up are other. A code that is new "
        "or rises names the cause: connect and timeout are the target's or the way to it, http_5xx is its own.",
    ),
    RUNS: (
        ("event",),
        "Runs of workflows that began, were retried or ended, as the event feed tells of them. Alarm on failed, for "
        "workflows that matter.",
    ),
    "step_failures": (
        ("step",),
        "Runs of a leader's step that failed. The beat's log says why at 'step failed'; the other steps go on.",
    ),
    "lease_renewals": (
        (),
        "Leases that workers renewed; one that runs for long is renewed each third of its lease.",
    ),
    "lease_renewal_failures": (
        (),
        "Times that a worker could not renew. Several in a row cost its work its leases: look at Postgres.",
    ),
    "leases_lost": (
        (),
        "Running triggers that a worker found taken from it: it had not renewed in time, or was cut off.",
    ),
    "publish_failures": (
        (),
        "Times that the broker took no messages. Their triggers are handed back and go later.",
    ),
    "http_requests": (
        ("method", "route", "status"),
        "Requests to the web processes by the pattern of their path. Alarm on the share of 5xx.",
    ),
}
_OWN_TIMES: dict[str, tuple[tuple[str, ...], str]] = {
    RUN_SECONDS: (
        ("outcome",),
        "From a run's begin to its end; of one that was retried, from its first begin.",
    ),
    "step_seconds": (
        ("step",),
        "How long runs of a leader's steps took. Dispatch's is a beat's turn: above a tenth of a second, firings wait.",
    ),
    "http_request_seconds": (
        ("route",),
        "From a request's head to its answer's; a stream's is told when it begins.",
    ),
}


def of_processes(rows: Sequence[Any]) -> Iterator[Metric]:
    """``rows``: of ``jobs_owntotal``. A name that is not told any more, as after an upgrade, is left out."""
    for name, (labels, text) in _OWN_COUNTERS.items():
        counter = _counter(name, text, *labels)
        told = {tuple(row.labels): row.count for row in rows if row.name == name and row.kind == TIMES}
        for values, count in (told or ({} if labels else {(): 0})).items():
            counter.add_metric(values, count)
        yield counter
    for name, (labels, text) in _OWN_TIMES.items():
        times: dict[tuple[str, ...], Counter[str]] = {}
        for row in rows:
            if row.name == name:
                times.setdefault(tuple(row.labels), Counter())[row.kind] += row.count
        yield _histogram_of(times, name, text, labels, SECONDS_BUCKETS, SECONDS_SUM)

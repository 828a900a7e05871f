"""Counters and histograms of ``/metrics``: activity by tenant and job type, and the reports of processes on themselves.

They are sums over all processes, as ``jobs_activitytotal`` and ``jobs_owntotal`` hold them.
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
    (
        "triggers_created",
        "created",
        "Triggers created: firings, runs now, notices, tasks. Alarm when it stops rising.",
    ),
    ("triggers_withdrawn", "withdrawn", "Triggers removed before they were due: an edit or an outage replaced them."),
    (
        "dispatched",
        "dispatched",
        "Triggers queued. If it rises more slowly than carillon_triggers_created, a backlog grows.",
    ),
    (
        "handed_back",
        "handed_back",
        "Queued triggers taken back: publishing failed, the job changed, or a worker was overloaded. Look at "
        "the logs of beat and broker if they are more than a few percent of carillon_dispatched.",
    ),
    (
        "messages_lost",
        "messages_lost",
        "Queued triggers that no worker claimed by the deadline. Look for workers of that queue, then at the broker.",
    ),
    ("attempts_started", "started", "Attempts that workers claimed: the throughput of the workers."),
    (
        "retries",
        "retried",
        "Attempts that are followed by a retry. Alarm on their share of carillon_attempts_started.",
    ),
    ("triggers_cancelled", "cancelled", "Triggers that a caller, an operator or a policy ended."),
    ("triggers_replayed", "replayed", "Ended triggers that were replayed."),
    (
        "duplicates_prevented",
        "duplicates_prevented",
        "Effects of ctx.once that were skipped because they had already been made.",
    ),
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
            "Triggers given up, by reason. Look at the dead letters; replay them once their cause is "
            "removed.",
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
    lags = "Set the objective on its p99. Triggers that have not started are in carillon_lag_seconds."
    yield _histogram(
        of_all,
        "start_lag_seconds",
        f"Time from when an attempt was due to its start. {lags}",
        "job_type",
        LAG_BUCKETS,
        LAG_SUM,
    )
    yield _histogram(
        totals,
        "tenant_start_lag_seconds",
        f"The same by tenant: a tenant that floods must delay only itself. {lags}",
        "tenant",
        LAG_BUCKETS,
        LAG_SUM,
    )
    yield _histogram(
        of_all,
        "attempt_duration_seconds",
        "Time from an attempt's start to its outcome. A target or handler that has become slow shows here "
        "first.",
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
            # A series that begins above 0 hides its first increase. The series of ``other`` are always there.
            if count is not None or row.tenant == "other":
                counter.add_metric((row.job_type, row.tenant, cause), count or 0)
    return counter


def _histogram(
    rows: Sequence[Any], name: str, text: str, label: str, buckets: Sequence[str], sum_kind: str
) -> HistogramMetricFamily:
    """Rows with the same value of the label are added up."""
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


#: Reports of processes on themselves (``jobs.activity``), by their name there: labels and help.
_OWN_COUNTERS: dict[str, tuple[tuple[str, ...], str]] = {
    ERRORS: (
        ("job_type", "error_code"),
        "Attempts that failed or timed out, by error code; codes that handlers invent count as other. A code "
        "that is new or rises names the cause: connect and timeout point to the target or the network, "
        "http_5xx to the target.",
    ),
    RUNS: (
        ("event",),
        "Runs of workflows that began, were retried or ended, as in the event feed. Alarm on failed, for "
        "workflows that matter.",
    ),
    "step_failures": (
        ("step",),
        "Failed runs of a leader's step. The beat's log says why at 'step failed'; the other steps go on.",
    ),
    "lease_renewals": (
        (),
        "Leases that workers renewed; a long attempt renews at each third of its lease.",
    ),
    "lease_renewal_failures": (
        (),
        "Times that a worker could not renew its leases. After several in a row its leases are lost: look "
        "at Postgres.",
    ),
    "leases_lost": (
        (),
        "Running triggers that a worker lost: it did not renew in time, or lost its connection.",
    ),
    "publish_failures": (
        (),
        "Times that the broker took no messages. Their triggers are handed back and dispatched later.",
    ),
    "http_requests": (
        ("method", "route", "status"),
        "Requests to the web processes by the pattern of their path. Alarm on the share of 5xx.",
    ),
}
_OWN_TIMES: dict[str, tuple[tuple[str, ...], str]] = {
    RUN_SECONDS: (
        ("outcome",),
        "Time from the begin of a run to its end; for a retried run, from its first begin.",
    ),
    "step_seconds": (
        ("step",),
        "Duration of a leader's steps. Dispatch is a beat's turn: above a tenth of a second, firings wait.",
    ),
    "http_request_seconds": (
        ("route",),
        "Time from a request's head to the head of its answer; a stream counts when it begins.",
    ),
}


def of_processes(rows: Sequence[Any]) -> Iterator[Metric]:
    """``rows``: of ``jobs_owntotal``. A name that is not reported any more, as after an upgrade, is left out."""
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

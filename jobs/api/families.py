"""The families of ``/metrics``: their names, labels and what to do with each.

Counters and histograms are sums over all processes (``jobs_activitytotal``). The label ``job_type`` is a registered
type, or one value for all types that tenants declare; ``tenant`` is one of the busiest, or ``other``. So no tenant can
invent series.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from jobs.core.activity import (
    BOUNDS,
    DURATION_BUCKETS,
    DURATION_SUM,
    LAG_BUCKETS,
    LAG_SUM,
    SKIPS,
    label_of,
)
from jobs.core.states import DEAD_REASONS, AttemptState
from jobs.store.insight.metrics import Figures
from jobs.store.insight.workers import shared_names

_WHOSE = ("job_type", "tenant")
_LES = (*map(floatToGoString, BOUNDS), "+Inf")
#: Counters of one kind each: name, kind and help.
_COUNTERS = (
    ("triggers_created", "created", "Triggers made, for a firing, a run now or a notice. Alarm when it stands still."),
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


class Families(Collector):
    """Everything a scrape shows. ``found``: None while the database is away."""

    def __init__(self, found: Figures | None, *, broker: bool) -> None:
        self._found, self._broker = found, broker

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "carillon_up",
            "1: the database answers. At 0 nothing else is told: look at Postgres first.",
            value=int(self._found is not None),
        )
        yield GaugeMetricFamily(
            "carillon_broker_up",
            "1: the broker answers. At 0 nothing is dispatched, unless messages go through Postgres.",
            value=int(self._broker),
        )
        if self._found is not None:
            yield from _of_activity(self._found.totals)
            yield from _of_backlog(self._found)
            yield from _of_queues(self._found)
            yield from _of_processes(self._found)
            yield from _of_database(self._found)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"carillon_{name}", text, labels=labels)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"carillon_{name}", text, labels=labels)


def _of_activity(rows: Sequence[Any]) -> Iterator[Metric]:
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
    counts: dict[str, list[int]] = {}
    sums: Counter[str] = Counter()
    for row in rows:
        value = getattr(row, label)
        added = counts.setdefault(value, [0] * len(buckets))
        for nth, kind in enumerate(buckets):
            added[nth] += getattr(row, kind) or 0
        sums[value] += getattr(row, sum_kind) or 0
    family = HistogramMetricFamily(f"carillon_{name}", text, labels=(label,))
    for value, added in counts.items():
        below = list(zip(_LES, accumulate(added), strict=True))
        family.add_metric((value,), below, sum_value=sums[value] / 1_000_000)
    return family


def _each(
    rows: Iterable[Any], value: str, *labels: str, of: Callable[[Iterable[float]], float] = sum
) -> dict[tuple[str, ...], float]:
    """The values of rows by their labels, of which the job type is as metrics name it; ``of`` joins those of one."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        key = tuple(
            label_of(getattr(row, name)) if name == "job_type" else getattr(row, name) for name in labels
        )
        found.setdefault(key, []).append(getattr(row, value))
    return {key: of(values) for key, values in found.items()}


def _filled(family: GaugeMetricFamily, values: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _of_backlog(found: Figures) -> Iterator[Metric]:
    due = Counter(_each(found.due, "count", "job_type"))
    due.update(_each(found.parked, "count", "job_type"))
    yield _filled(
        _gauge(
            "due_triggers",
            "Triggers that are due and not dispatched, parked ones included; exact up to 1,000 of a lane and "
            "2,000 of a cause. Grows: workers, a cap or a target is too slow.",
            "job_type",
        ),
        due,
    )
    yield _filled(
        _gauge(
            "parked_triggers",
            "Those of them that wait for a cause of their own: overlap, for another trigger of their job or of its "
            "concurrency key; rate, for their target's rate or a crowded worker; target, as that is paused or full.",
            "job_type",
            "cause",
        ),
        _each(found.parked, "count", "job_type", "cause"),
    )
    lags = [*found.due, *found.parked]
    yield _filled(
        _gauge(
            "lag_seconds",
            "How late the oldest trigger is that is due and not dispatched, parked or not. Alarm above your promise; "
            "explain of that trigger names the gate.",
            "job_type",
        ),
        _each(lags, "lag_seconds", "job_type", of=max),
    )
    yield _filled(
        _gauge("in_flight_triggers", "Triggers queued or running.", "job_type", "state"),
        _each(found.in_flight, "count", "job_type", "state"),
    )
    yield _filled(
        _gauge(
            "in_flight_oldest_seconds",
            "Since the oldest of them was queued. Queued for minutes: no worker takes from that queue.",
            "job_type",
            "state",
        ),
        _each(found.in_flight, "oldest_seconds", "job_type", "state", of=max),
    )
    running = [row for row in found.in_flight if row.state == "running"]
    yield _filled(
        _gauge(
            "expired_leases",
            "Running triggers whose worker did not renew its lease. Above 0 for a minute: no leader reaps; short of "
            "that, workers die or lose the database.",
            "job_type",
        ),
        _each(running, "expired", "job_type"),
    )


def _of_queues(found: Figures) -> Iterator[Metric]:
    yield _filled(
        _gauge("queue_window", "Triggers that may be queued at once.", "job_type"),
        _each(found.queues, "window", "job_type"),
    )
    yield _filled(
        _gauge("queue_claims_per_second", "What workers claimed when it was last measured.", "job_type"),
        _each(found.queues, "rate", "job_type"),
    )
    yield GaugeMetricFamily(
        "carillon_dispatch_stopped",
        "1: an operator stopped dispatch for all tenants. `carillon installation show` says who and why.",
        value=int(found.levers.stopped),
    )
    yield _filled(
        _gauge("job_type_paused", "1: an operator paused the job type for all tenants.", "job_type"),
        _each(found.queues, "paused", "job_type", of=max),
    )
    yield GaugeMetricFamily(
        "carillon_targets_paused",
        "Rules by which an operator paused hosts that jobs call. `carillon targets list` says which, who and why.",
        value=found.levers.paused_targets,
    )
    yield GaugeMetricFamily(
        "carillon_breakers_open",
        "Circuit breakers of tenants' targets that are open or probing, up to 10,000. Many at once: look at our own "
        "way out, its proxy and its names, before the targets.",
        value=found.levers.open_breakers,
    )


def _of_processes(found: Figures) -> Iterator[Metric]:
    term = _gauge(
        "lease_term",
        "Leaderships so far; goes up with each new leader. Often: a leader loses its lease, look at its log.",
        "lease",
        "holder",
    )
    left = _gauge(
        "lease_seconds_left",
        "Until the lease runs out; below 0: nobody has it, and nothing is dispatched. Start a beat.",
        "lease",
        "holder",
    )
    for row in found.leases:
        term.add_metric((row.name, row.holder), row.term)
        left.add_metric((row.name, row.holder), row.seconds_left)
    offset = _gauge(
        "clock_offset_seconds",
        "How far a process's clock is ahead of the database's. Beyond 1 s: set that machine's clock.",
        "process",
    )
    within = _gauge("clock_offset_within_seconds", "How exactly that is known.", "process")
    passed = _counter(
        "rate_limit_bypassed",
        "Firings rated by this process alone, as Redis was away. Any increase matters where a target has a limit.",
        "process",
    )
    for row in found.clocks:
        passed.add_metric((row.name,), row.rate_limit_bypassed)
        offset.add_metric((row.name,), row.offset_seconds)
        within.add_metric((row.name,), row.within_seconds)
    serving = _gauge(
        "workers", "Workers that take from a queue. 0 where something is queued: start one.", "queue"
    )
    queues = Counter(label_of(queue) for worker in found.workers for queue in worker.queues)
    for queue, count in queues.items():
        serving.add_metric((queue,), count)
    shared = GaugeMetricFamily(
        "carillon_worker_names_shared",
        "Node names that several workers have. Give each its own with -n.",
        value=len(shared_names(found.workers)),
    )
    yield from (term, left, offset, within, passed, serving, shared)


def _of_database(found: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "carillon_retention_backlog_triggers",
        "Triggers among the 2,000 oldest that retention should have dropped. Above 0 for an hour: the leader's purge "
        "fails or is too slow, look for 'step failed' in its log.",
        value=found.past_retention,
    )
    yield _filled(
        _gauge(
            "partitions_ahead_seconds",
            "How far ahead a table has partitions. Below a day: no beat makes them, or its role may not; rows then go "
            "into the default partition, which retention cannot drop.",
            "table",
        ),
        {(row.name,): row.seconds for row in found.partitions},
    )
    yield GaugeMetricFamily(
        "carillon_connections_used",
        "Connections of clients to Postgres, whoever's. Alarm at 80 % of carillon_connections_max.",
        value=found.connections.used,
    )
    yield GaugeMetricFamily(
        "carillon_connections_max", "What max_connections of Postgres allows.", value=found.connections.most
    )

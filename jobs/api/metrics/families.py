"""The families of ``/metrics``: their names, labels and what to do with each. Counters and histograms: ``activity``.

The label ``job_type`` is a registered type, or one value for all types that tenants declare. ``tenant`` is one of the
busiest, or ``other``. So no tenant can invent series.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.api.metrics import activity
from jobs.core.activity import label_of
from jobs.core.workflows.states import UNFINISHED_TASK_RUNS
from jobs.store import replica
from jobs.store.insight.metrics import Figures
from jobs.store.insight.workers import shared_names


class Families(Collector):
    """Everything a scrape shows. ``found``: None while the database is away."""

    def __init__(self, found: Figures | None, *, broker: bool) -> None:
        self._found, self._broker = found, broker

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "carillon_up",
            "1: the database answers. At 0 there are no other figures: look at Postgres first.",
            value=int(self._found is not None),
        )
        yield GaugeMetricFamily(
            "carillon_broker_up",
            "1: the broker answers. At 0 nothing is dispatched, unless messages go through Postgres.",
            value=int(self._broker),
        )
        yield from _of_replica(replica.condition())
        if self._found is not None:
            yield from activity.of_tenants(self._found.totals)
            yield from activity.of_processes(self._found.own)
            yield from _of_ahead(self._found)
            yield from _of_backlog(self._found)
            yield from _of_workflows(self._found)
            yield from _of_queues(self._found)
            yield from _of_processes(self._found)
            yield from _of_database(self._found)


def _of_replica(found: replica.Condition | None) -> Iterator[Metric]:
    """Figures of the process that answers: each process watches the replica by itself."""
    if found is None:
        return
    yield GaugeMetricFamily(
        "carillon_replica_up",
        "1: lists of history are read from the replica. At 0 it is away, too far behind or not a replica, "
        "and the primary serves its reads; /readyz says why.",
        value=int(found.word is replica.Word.OK),
    )
    if found.lag_seconds is not None:
        yield GaugeMetricFamily(
            "carillon_replica_lag_seconds",
            "Upper bound of the age of the replica's answers. At CARILLON_REPLICA_MAX_LAG_SECONDS the "
            "primary is asked.",
            value=found.lag_seconds,
        )


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"carillon_{name}", text, labels=labels)


def _each(
    rows: Iterable[Any], value: str, *labels: str, of: Callable[[Iterable[float]], float] = sum
) -> dict[tuple[str, ...], float]:
    """The values of rows by their labels, with the job type as metrics name it. ``of`` joins the values of one key."""
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
            "2,000 of a cause. If it grows, workers, a cap or a target are too slow.",
            "job_type",
        ),
        due,
    )
    yield _filled(
        _gauge(
            "parked_triggers",
            "Due triggers that are parked, by cause: overlap, for another trigger of their job or its "
            "concurrency key; rate, for their target's rate or a busy worker; target, because it is paused "
            "or full.",
            "job_type",
            "cause",
        ),
        _each(found.parked, "count", "job_type", "cause"),
    )
    lags = [*found.due, *found.parked]
    yield _filled(
        _gauge(
            "lag_seconds",
            "How late the oldest due trigger is that is not dispatched, parked or not. Alarm above the lag "
            "that you promise; explain of that trigger names the gate.",
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
            "Seconds since the oldest of them was queued. Queued for minutes: no worker takes from that "
            "queue.",
            "job_type",
            "state",
        ),
        _each(found.in_flight, "oldest_seconds", "job_type", "state", of=max),
    )
    running = [row for row in found.in_flight if row.state == "running"]
    yield _filled(
        _gauge(
            "expired_leases",
            "Running triggers whose worker did not renew its lease. Above 0 for a minute: no leader reaps; "
            "for less time, workers die or lose the database.",
            "job_type",
        ),
        _each(running, "expired", "job_type"),
    )


def _of_ahead(found: Figures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "carillon_materialization_lag_seconds",
        "Delay of the job that has waited longest for its next trigger. Above 0: the step materialize fails "
        "or lags.",
        value=found.ahead.materialization_lag_seconds,
    )
    yield GaugeMetricFamily(
        "carillon_catch_ups",
        "Catch-ups of jobs after outages, and backfills, that are not finished. It falls after an outage; if "
        "not, look for 'catch-up' in the leader's log.",
        value=found.ahead.catch_ups,
    )
    yield GaugeMetricFamily(
        "carillon_feed_lag_seconds",
        "Age of the oldest event that the notifier has not read. Above a minute: notices come late; a "
        "transaction that stays open holds events back.",
        value=found.feed_lag_seconds,
    )
    yield _filled(
        _gauge(
            "messages_waiting",
            "Messages that wait in Postgres because the broker is away, counted in the 10,000 oldest.",
            "job_type",
        ),
        _each(found.messages, "count", "job_type"),
    )
    yield _filled(
        _gauge(
            "messages_oldest_seconds",
            "Seconds since the oldest of them was written. Above a minute: no worker reads them.",
            "job_type",
        ),
        _each(found.messages, "oldest_seconds", "job_type", of=max),
    )


def _of_workflows(found: Figures) -> Iterator[Metric]:
    workflows = found.ahead
    yield GaugeMetricFamily(
        "carillon_workflow_runs_running",
        "Runs of workflows that have not ended, paused ones included, up to 10,000.",
        value=workflows.running,
    )
    yield GaugeMetricFamily(
        "carillon_workflow_runs_paused",
        "Unfinished runs of workflows that are paused.",
        value=workflows.paused,
    )
    yield GaugeMetricFamily(
        "carillon_workflow_run_oldest_seconds",
        "Seconds since the oldest unfinished run that is not paused began. Alarm above the usual time of "
        "your workflows; explain of that run names the task that holds it.",
        value=workflows.oldest_seconds,
    )
    yield _filled(
        _gauge(
            "workflow_tasks",
            "Tasks of unfinished runs, up to 20,000. waiting: for the tasks before them; ready: for "
            "max_parallel or the end of a pause; started: they have a trigger.",
            "state",
        ),
        {(state,): getattr(workflows, state) for state in UNFINISHED_TASK_RUNS},
    )


def _of_queues(found: Figures) -> Iterator[Metric]:
    yield _filled(
        _gauge("queue_window", "Number of triggers that may be queued at once.", "job_type"),
        _each(found.queues, "window", "job_type"),
    )
    yield _filled(
        _gauge(
            "queue_claims_per_second",
            "Triggers that workers claimed per second, as last measured.",
            "job_type",
        ),
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
        "Rules by which an operator paused hosts that jobs call. `carillon targets list` shows them, with "
        "actor and reason.",
        value=found.levers.paused_targets,
    )
    yield GaugeMetricFamily(
        "carillon_breakers_open",
        "Circuit breakers of tenants' targets that are open or probing, up to 10,000. Many at once: check "
        "your own network, proxy and DNS before the targets.",
        value=found.levers.open_breakers,
    )


def _of_processes(found: Figures) -> Iterator[Metric]:
    term = _gauge(
        "lease_term",
        "Number of leaderships so far. If it rises often, a leader loses its lease: look at its log.",
        "lease",
        "holder",
    )
    left = _gauge(
        "lease_seconds_left",
        "Seconds until the lease expires; below 0: no beat leads, and nothing is dispatched. Start a beat.",
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
    within = _gauge("clock_offset_within_seconds", "Uncertainty of the clock offset, in seconds.", "process")
    passed = CounterMetricFamily(
        "carillon_rate_limit_bypassed",
        "Firings that this process rated by itself while Redis was away. Any increase matters if a target "
        "has a limit.",
        labels=("process",),
    )
    for row in found.clocks:
        passed.add_metric((row.name,), row.rate_limit_bypassed)
        offset.add_metric((row.name,), row.offset_seconds)
        within.add_metric((row.name,), row.within_seconds)
    serving = _gauge(
        "workers", "Workers that take from a queue. 0 while triggers are queued: start one.", "queue"
    )
    slots = _gauge(
        "worker_slots",
        "Triggers that the workers of a queue can run at once; one that takes from several counts for each. "
        "If as many carillon_in_flight_triggers are running, start workers.",
        "queue",
    )
    queues, places = Counter[str](), Counter[str]()
    for worker in found.workers:
        queues.update(label_of(queue) for queue in worker.queues)
        places.update({label_of(queue): worker.concurrency for queue in worker.queues})
    for queue, count in queues.items():
        serving.add_metric((queue,), count)
        slots.add_metric((queue,), places[queue])
    shared = GaugeMetricFamily(
        "carillon_worker_names_shared",
        "Node names that several workers share. Give each worker its own with -n.",
        value=len(shared_names(found.workers)),
    )
    yield from (term, left, offset, within, passed, serving, slots, shared)


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
    yield _filled(
        _gauge(
            "default_partition_rows",
            "Rows in a table's default partition, of the first 1,000. Above 0 for two hours: the leader "
            "cannot give them partitions of their own, or they lie in the future, written while a clock was "
            "ahead.",
            "table",
        ),
        {(table,): rows for table, rows in found.strays.items()},
    )
    yield GaugeMetricFamily(
        "carillon_connections_used",
        "Connections of all clients to Postgres. Alarm at 80 % of carillon_connections_max.",
        value=found.connections.used,
    )
    yield GaugeMetricFamily(
        "carillon_connections_max",
        "Connections that max_connections of Postgres allows.",
        value=found.connections.most,
    )

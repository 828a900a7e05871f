"""The charts of a scope, from tallies and samples, or, for one job, from the ledger. Its window bounds each read."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from jobs.admin.charts.chart import DASHED, DOTTED, LONG, Chart, Series, Value, moments
from jobs.admin.charts.scope import Scope
from jobs.conf import engine_settings
from jobs.core.activity import BURIALS, LAG_BUCKETS, SKIPS, time_within
from jobs.core.histogram import percentile
from jobs.core.pull import shown_name
from jobs.core.states import UNFINISHED
from jobs.models import MetricTenant
from jobs.store.insight.outcomes import SPANS, statistics
from jobs.store.insight.series import samples
from jobs.store.insight.series.totals import Totals, retried_most, totals
from tenants.models import Tenant

#: So many types or tenants are shown.
MAX_BARS = 10
#: Figures that are read tenant by tenant cover at most this span: 90 days would take twice as long as all else.
LONGEST_BY_TENANT = SPANS["7d"]
FAILURES = {"ended_failed": "failed", "ended_timed_out": "timed out", "ended_lost": "lost"}
_SPREAD = (("p50", 0.50, ()), ("p95", 0.95, DASHED), ("p99", 0.99, DOTTED))
#: The tones of reasons, one upon another: light and dark by turns.
_TONES = ("warn", "good", "muted", "note", "plain", "bad")
_LAG_NOTE = "Time from due to start. The objective is CARILLON_LAG_WARN_SECONDS."


def charts_of(scope: Scope) -> list[Chart]:
    """The charts of ``scope``. A constant number of statements; each may raise ``StatementFailed``."""
    if scope.job is not None:
        return _of_job(scope)
    found = totals(tenant_ids=scope.tenant_ids, window=scope.window, job_type=scope.job_type)
    charts = [_outcomes(found, scope), _lags(found, scope)]
    if scope.is_all:
        charts += _queues(scope)
    charts += [_skips(found, scope), _deaths(found, scope)]
    if not scope.job_type:
        charts.append(_failing_types(found))
    if scope.tenant is None:
        charts.append(_retrying_tenants(scope))
    return charts


def _labels(found: Totals, scope: Scope) -> list[str]:
    return moments(found.since, scope.window.bucket.total_seconds(), len(found.buckets))


def _counted(label: str, tone: str, buckets: Sequence[Mapping[str, int]], *kinds: str) -> Series:
    return Series(label, tone, [sum(bucket.get(kind, 0) for kind in kinds) for bucket in buckets])


def _outcomes(found: Totals, scope: Scope) -> Chart:
    of = found.buckets
    return Chart(
        "outcomes",
        "Outcomes",
        "bar",
        _labels(found, scope),
        [
            _counted("succeeded", "good", of, "ended_succeeded"),
            _counted("retried", "warn", of, "retried"),
            _counted("dead", "bad", of, *BURIALS),
            _counted("skipped", "muted", of, *SKIPS.values()),
            _counted("cancelled", "note", of, "cancelled"),
        ],
        note="Outcomes count when they happen. A retried firing counts again when it ends.",
        stacked=True,
    )


def _lags(found: Totals, scope: Scope) -> Chart:
    return _spread(
        "lag",
        "Start lag",
        _labels(found, scope),
        lambda share: [time_within(bucket, LAG_BUCKETS, share) for bucket in found.buckets],
        note=_LAG_NOTE,
        objective=True,
    )


def _spread(
    key: str,
    title: str,
    labels: Sequence[str],
    within: Callable[[float], list[Value]],
    *,
    note: str = "",
    objective: bool = False,
) -> Chart:
    lines = [
        Series(name, tone, within(share), dash)
        for (name, share, dash), tone in zip(_SPREAD, ("plain", "note", "bad"), strict=True)
    ]
    limit = engine_settings().lag_warn_seconds
    always = [Series("objective", "warn", [limit] * len(labels), LONG)] if objective else []
    return Chart(key, title, "line", labels, lines, note=note, seconds=True, always=always)


def _queues(scope: Scope) -> list[Chart]:
    since, _, seen = samples.series(window=scope.window, job_type=scope.job_type)
    labels = moments(since, scope.window.bucket.total_seconds(), len(seen))

    def line(label: str, tone: str, name: str, dash: tuple[int, ...] = ()) -> Series:
        return Series(label, tone, [None if one is None else one[name] for one in seen], dash)

    most = "The highest of the leader's samples, one every 30 s."
    return [
        Chart(
            "depth",
            "Queue depth",
            "line",
            labels,
            [
                line("due, not dispatched", "bad", "due"),
                line("parked", "warn", "parked", DOTTED),
                line("queued", "plain", "queued", DASHED),
            ],
            note=f"{most} Due triggers are counted up to 1,000 per lane; parked ones wait for a firing or a "
            "target.",
        ),
        Chart(
            "pool",
            "Pool saturation",
            "line",
            labels,
            [line("running", "plain", "running"), line("slots", "muted", "slots", LONG)],
            note=f"{most} Slots are those of all workers that take from the queue.",
        ),
    ]


def _skips(found: Totals, scope: Scope) -> Chart:
    series = [
        _counted(reason.replace("_", " "), tone, found.buckets, kind)
        for (reason, kind), tone in zip(SKIPS.items(), _TONES, strict=False)
    ]
    return Chart("skips", "Skipped, by reason", "bar", _labels(found, scope), _present(series), stacked=True)


def _deaths(found: Totals, scope: Scope) -> Chart:
    series = [
        _counted(f"dead: {kind.removeprefix('buried_')}", tone, found.buckets, kind)
        for kind, tone in zip(BURIALS, ("bad", "warn", "note", "muted"), strict=False)
    ]
    lost = _counted("lease expired", "plain", found.buckets, "ended_lost")
    return Chart(
        "deaths",
        "Dead letters and expired leases",
        "bar",
        _labels(found, scope),
        _present([*series, lost]),
        note="A lease expires when a worker died, froze or lost its connection; its firings are recovered.",
        stacked=True,
    )


def _present(series: Sequence[Series]) -> list[Series]:
    """The series that have something to show; the first where none has."""
    return [one for one in series if not one.is_empty] or list(series[:1])


def _failing_types(found: Totals) -> Chart:
    def failures(counts: Mapping[str, int]) -> int:
        return sum(counts.get(kind, 0) for kind in FAILURES)

    worst = sorted(found.job_types.items(), key=lambda item: (-failures(item[1]), item[0]))[:MAX_BARS]
    worst = [(name, counts) for name, counts in worst if failures(counts)]
    return Chart(
        "types",
        "Failed attempts, by job type",
        "bar",
        [shown_name(name) for name, _ in worst],
        [
            _counted(label, tone, [counts for _, counts in worst], kind)
            for (kind, label), tone in zip(FAILURES.items(), ("bad", "warn", "note"), strict=True)
        ],
        stacked=True,
        across=True,
        first_column="Job type",
    )


def _retrying_tenants(scope: Scope) -> Chart:
    """Retries of the tenants that are named in ``/metrics``, the busiest; for a bound operator, of their tenants."""
    ids = scope.tenant_ids
    if scope.is_all:
        named = MetricTenant.objects.order_by("tenant_id").values_list("tenant_id", flat=True)
        ids = tuple(named[: 2 * MAX_BARS])
    window = min(scope.window, LONGEST_BY_TENANT, key=lambda one: one.span)
    most = retried_most(tenant_ids=ids, window=window, job_type=scope.job_type, limit=MAX_BARS)
    slugs = dict(Tenant.objects.filter(pk__in=most).values_list("pk", "slug"))
    retried = Counter({slugs[pk]: count for pk, count in most.items() if pk in slugs})
    ordered = retried.most_common()
    notes = [
        "Only the busiest tenants, which have their own series in /metrics." if scope.is_all else "",
        "" if window is scope.window else f"Only the last {window.span.days} days.",
    ]
    return Chart(
        "tenants",
        "Retries, by tenant",
        "bar",
        [slug for slug, _ in ordered],
        [Series("retried", "warn", [count for _, count in ordered])],
        note=" ".join(filter(None, notes)),
        across=True,
        first_column="Tenant",
    )


def _of_job(scope: Scope) -> list[Chart]:
    assert scope.job is not None
    found = statistics(job_id=scope.job.pk, window=scope.window)
    labels = moments(found.since, scope.window.bucket.total_seconds(), len(found.buckets))

    def states(label: str, tone: str, *names: str) -> Series:
        return Series(label, tone, [sum(one.states[name] for name in names) for one in found.buckets])

    sampled = "" if found.total.complete else " A sample: the job fires too often to read all firings."
    return [
        Chart(
            "outcomes",
            "Outcomes",
            "bar",
            labels,
            [
                states("succeeded", "good", "succeeded"),
                states("unfinished", "warn", *UNFINISHED),
                states("dead", "bad", "dead"),
                states("skipped", "muted", "skipped"),
                states("cancelled", "note", "cancelled"),
            ],
            note=f"Firings by their scheduled time.{sampled}",
            stacked=True,
        ),
        _spread(
            "lag",
            "Start lag",
            labels,
            lambda share: [percentile(one.lag, share) for one in found.buckets],
            note=f"{_LAG_NOTE} Only firings with one attempt.",
            objective=True,
        ),
        _spread(
            "duration",
            "Duration",
            labels,
            lambda share: [percentile(one.duration, share) for one in found.buckets],
            note="Time from start to end. Only firings with one attempt.",
        ),
    ]

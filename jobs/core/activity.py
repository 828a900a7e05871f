"""The activity that is counted by tenant and job type: its kinds, and the buckets of start lags and durations.

Each kind is a column of ``jobs_activityminute``, ``…hour`` and ``…total``. Counts feed ``/metrics`` and charts. The
engine does not depend on them.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from jobs.core.pull import is_pull
from jobs.core.states import DEAD_REASONS, SKIP_REASONS, AttemptState

#: Upper bounds of the buckets of start lags and durations, in seconds; one more bucket takes longer ones.
BOUNDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
    1800,
    3600,
)
#: From ``due_at`` to the start of an attempt, and from its start to its end; their sums are in microseconds.
LAG_SUM, DURATION_SUM = "lag_us", "duration_us"
LAG_BUCKETS = tuple(f"lag_{nth}" for nth in range(len(BOUNDS) + 1))
DURATION_BUCKETS = tuple(f"duration_{nth}" for nth in range(len(BOUNDS) + 1))
#: How attempts end; ``started`` is not an end.
ENDS = tuple(f"ended_{state}" for state in AttemptState if state is not AttemptState.STARTED)
BURIALS = tuple(f"buried_{reason}" for reason in DEAD_REASONS)
SKIPS = {reason: f"skipped_{reason}" for reason in SKIP_REASONS}
KINDS = (
    "created",
    "withdrawn",
    "dispatched",
    "handed_back",
    "messages_lost",
    "started",
    *ENDS,
    "retried",
    "cancelled",
    "replayed",
    *BURIALS,
    *SKIPS.values(),
    "duplicates_prevented",
    LAG_SUM,
    DURATION_SUM,
    *LAG_BUCKETS,
    *DURATION_BUCKETS,
)
#: Reports of processes on themselves: how often something happened, or how long it took, in the same buckets.
TIMES, SECONDS_SUM = "times", "us"
SECONDS_BUCKETS = tuple(f"le_{nth}" for nth in range(len(BOUNDS) + 1))
#: The buckets of the times that are counted, by the kind of their sum.
BUCKETS = {LAG_SUM: LAG_BUCKETS, DURATION_SUM: DURATION_BUCKETS, SECONDS_SUM: SECONDS_BUCKETS}
#: All job types that tenants declare share this label in ``/metrics``, so that no tenant can invent labels.
DECLARED_TYPES = "declared@tenants"

#: Carillon's own error codes of failed attempts. Handlers and pull workers may name any others: those share
#: OTHER_ERRORS in ``/metrics``.
ERROR_CODES = frozenset(
    {
        *(
            "address_refused",
            "asked_to_fail",
            "bad_response",
            "bad_result",
            "bad_url",
            "broker",
            "cancelled",
            "connect",
        ),
        *(
            "disconnected",
            "dns",
            "dns_timeout",
            "exception",
            "failed",
            "handler_error",
            "invalid",
            "invalid_payload",
        ),
        *("lease_lost", "open_transaction", "permanent", "port_refused", "queue_full", "queue_missing"),
        *(
            "queue_refused",
            "redirect",
            "retry_after",
            "run_refused",
            "secret_host",
            "secret_missing",
            "secret_unfit",
        ),
        *("secret_unreadable", "system_exit", "timeout", "tls", "type_switched_off", "unwritable_outcome"),
        "wait_timed_out",
    }
)
OTHER_ERRORS = "other"
_HTTP = re.compile(r"http_([1-9])\d\d")

#: All tenants together are counted under this tenant id.
ALL_TENANTS = -1

#: Counts by kind; a kind that did not happen is left out.
Counts = dict[str, int]


def timed(seconds: Iterable[float], sum_kind: str) -> list[tuple[str, int]]:
    """The counts of lags or durations: by bucket, and their sum. A clock that was set back makes a time 0."""
    buckets = BUCKETS[sum_kind]
    times = sorted(seconds)
    if times and times[0] < 0:
        times = sorted([max(one, 0.0) for one in times])
    # In order, each bucket ends where its bound would be: a step for each bucket in use, and not for each time.
    counts, at = [(sum_kind, round(sum(times) * 1_000_000))], 0
    while at < len(times):
        nth = bisect_left(BOUNDS, times[at])
        end = bisect_right(times, BOUNDS[nth], at) if nth < len(BOUNDS) else len(times)
        counts.append((buckets[nth], end - at))
        at = end
    return counts


def time_within(counts: Mapping[str, int], buckets: tuple[str, ...], share: float) -> float | None:
    """The time in seconds within which ``share`` (0 to 1) of the times in ``buckets`` lie; None if they are empty.

    Times inside a bucket count as evenly spread, as in Prometheus. No time counts as longer than the last bound.
    """
    wanted = share * sum(counts.get(bucket, 0) for bucket in buckets)
    low = 0.0
    for bucket, high in zip(buckets, (*BOUNDS, BOUNDS[-1]), strict=True):
        count = counts.get(bucket, 0)
        if count and wanted <= count:
            return float(f"{low + (high - low) * wanted / count:.3g}")
        wanted -= count
        low = high
    return None


def label_of(job_type: str) -> str:
    """The job type as metrics name it."""
    return DECLARED_TYPES if is_pull(job_type) else job_type


def label_of_error(code: str) -> str:
    """The error code as metrics name it; a code of a target's answer by its class, such as ``http_5xx``."""
    if answered := _HTTP.fullmatch(code):
        return f"http_{answered[1]}xx"
    return code if code in ERROR_CODES else OTHER_ERRORS


def tenants_to_name(named: Mapping[int, int], candidates: Mapping[int, int], *, places: int) -> set[int]:
    """Which tenants have series of their own, at most ``places``, given the recent activity of each.

    Each change ends series and begins others. So a named tenant keeps its place until a tenant without a place is twice
    as active.
    """
    by_activity = sorted(candidates, key=lambda tenant_id: (-candidates[tenant_id], tenant_id))
    kept = sorted(named, key=lambda tenant_id: (-named[tenant_id], tenant_id))[:places]
    for tenant_id in by_activity:
        if tenant_id in kept:
            continue
        if len(kept) < places:
            kept.append(tenant_id)
            continue
        least = min(kept, key=lambda other: named.get(other, candidates.get(other, 0)), default=None)
        if least is None or candidates[tenant_id] <= 2 * named.get(least, candidates.get(least, 0)):
            break
        kept[kept.index(least)] = tenant_id
    return set(kept)

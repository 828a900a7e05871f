"""Lag in calm: how late a handler starts after its trigger fell due, and what beat and worker weigh meanwhile.

Ours is Postgres' own account: the attempt's start minus ``due_at``. Celery's beat keeps no account, so its tasks stamp
their start. Its entries all count from the moment it loaded them, so the n-th firing of each is due n intervals after
that moment, which is taken to be the one that makes the promptest execution of all have no lag whatever.
"""

import time
from datetime import timedelta

from benchmarks import carillon
from benchmarks.peers import celery_beat
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Actor, Stage

JOBS = 60
SECONDS = 30.0
#: 2 to 10 s, no two alike: in step they would make a small herd every few seconds, which is not calm.
INTERVALS = [timedelta(seconds=2 + 8 * i / JOBS) for i in range(JOBS)]
_LAGS = """
    SELECT extract(epoch FROM a.started_at - t.due_at)::float * 1000
    FROM jobs_trigger t JOIN jobs_attempt a ON a.trigger_id = t.id AND a.number = 1
    WHERE t.due_at >= %s
"""


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shortens the watch."""
    seconds = SECONDS * scale
    ours, our_weight = _ours(stage, seconds)
    theirs, their_weight = _peer(stage, seconds)
    rows = tuple(
        Row(name, (f"{percentile(lags, 0.5):.1f}", f"{percentile(lags, 0.99):.1f}", str(len(lags)), *weight))
        for name, lags, weight in (
            ("Carillon", ours, tuple(f"{mib:.0f}" for mib in our_weight)),
            ("Celery beat", theirs, tuple(f"{mib:.0f}" for mib in their_weight)),
        )
    )
    return Report(
        name="lag",
        title=f"Start lag of {JOBS} interval jobs in {seconds:g} s of calm",
        unit="ms, p99",
        ours=percentile(ours, 0.99),
        peer=percentile(theirs, 0.99),
        ratio=percentile(theirs, 0.99) / percentile(ours, 0.99),
        columns=("p50 ms", "p99 ms", "firings", "beat MiB", "worker MiB"),
        rows=rows,
        more={
            "ours_p50_ms": round(percentile(ours, 0.5), 2),
            "peer_p50_ms": round(percentile(theirs, 0.5), 2),
            "firings": len(ours),
            "ours_beat_rss_mib": round(our_weight[0], 1),
            "ours_worker_rss_mib": round(our_weight[1], 1),
            "peer_beat_rss_mib": round(their_weight[0], 1),
            "peer_worker_rss_mib": round(their_weight[1], 1),
        },
    )


def _ours(stage: Stage, seconds: float) -> tuple[list[float], tuple[float, float]]:
    with carillon.running(stage) as (beat, worker):
        since = carillon.add_interval_jobs(stage, INTERVALS)
        weight = _watch(stage, "Carillon: 60 interval jobs", beat, worker, seconds)
        return [lag for (lag,) in stage.db.execute(_LAGS, [since])], weight


def _peer(stage: Stage, seconds: float) -> tuple[list[float], tuple[float, float]]:
    entries = {f"entry-{i}": every.total_seconds() for i, every in enumerate(INTERVALS)}
    with celery_beat.running(stage, entries) as (beat, worker):
        weight = _watch(stage, "Celery beat: 60 interval entries", beat, worker, seconds)
        stamps = celery_beat.stamps(stage)
    loaded_at = [
        start - n * entries[entry] for entry, starts in stamps.items() for n, start in enumerate(starts, 1)
    ]
    return [1000 * (at - min(loaded_at)) for at in loaded_at], weight


def _watch(stage: Stage, what: str, beat: Actor, worker: Actor, seconds: float) -> tuple[float, float]:
    """Let it go on for ``seconds``; the resident memory of beat and worker at the end, in MiB."""
    until = time.monotonic() + seconds
    stage.must(what, lambda: time.monotonic() >= until, timeout_seconds=seconds + 60)
    return beat.rss_mib(), worker.rss_mib()

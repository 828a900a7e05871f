"""Herd: ten thousand jobs due within one second; how long until all are done, and how much the leader grows.

Ours is clocked by Postgres from the first due instant to the last recorded success. Celery's beat has as many interval
entries that fall due together; it is given a minute, and its rate is what it managed in it.
"""

import time
from datetime import timedelta

from benchmarks import carillon
from benchmarks.peers import celery_beat
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage

JOBS = 10_000
LEAD_SECONDS = 8
PEER_LEAD_SECONDS = 20.0
PEER_PATIENCE_SECONDS = 60.0


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the herd."""
    jobs = int(JOBS * scale)
    seconds, peak = _ours(stage, jobs)
    done, peer_seconds, peer_peak = _peer(stage, jobs)
    ours, theirs = jobs / seconds, done / peer_seconds
    return Report(
        name="herd",
        title=f"{jobs:,} jobs due within one second",
        unit="jobs per second",
        ours=ours,
        peer=theirs,
        ratio=ours / theirs,
        columns=("done", "seconds", "per second", "leader's peak MiB"),
        rows=(
            Row("Carillon", (f"{jobs:,}", f"{seconds:.2f}", f"{ours:,.0f}", f"{peak:.0f}")),
            Row("Celery beat", (f"{done:,}", f"{peer_seconds:.2f}", f"{theirs:,.0f}", f"{peer_peak:.0f}")),
        ),
        more={
            "jobs": jobs,
            "ours_seconds": round(seconds, 2),
            "ours_peak_rss_mib": round(peak, 1),
            "peer_done": done,
            "peer_seconds": round(peer_seconds, 2),
            "peer_peak_rss_mib": round(peer_peak, 1),
        },
    )


def _ours(stage: Stage, jobs: int) -> tuple[float, float]:
    with carillon.running(stage) as (beat, _):
        due_at = carillon.add_one_time_jobs(
            stage, jobs, due_in=timedelta(seconds=LEAD_SECONDS), spread=timedelta(seconds=1)
        )
        carillon.drain(stage, carillon.WARM_UP + jobs, what=f"Carillon: a herd of {jobs:,}")
        return (carillon.last_finished_at(stage) - due_at).total_seconds(), beat.peak_rss_mib()


def _peer(stage: Stage, jobs: int) -> tuple[int, float, float]:
    """Executions, seconds they took from the first one on, and beat's peak."""
    entries = {f"entry-{i}": PEER_LEAD_SECONDS for i in range(jobs)}
    with celery_beat.running(stage, entries) as (beat, _):
        stage.must(f"Celery beat: waiting for {jobs:,} entries", lambda: celery_beat.executed(stage) > 0)
        started = time.monotonic()
        stage.wait(
            f"Celery beat: a herd of {jobs:,}",
            lambda: celery_beat.executed(stage) >= jobs,
            timeout_seconds=PEER_PATIENCE_SECONDS,
        )
        done, seconds = celery_beat.executed(stage), time.monotonic() - started
        if not done:
            raise BenchError("Celery beat executed nothing")
        return min(done, jobs), seconds, beat.peak_rss_mib()

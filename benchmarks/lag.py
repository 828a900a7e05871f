"""Lag: how late a handler starts after its trigger fell due, in calm and at half of the machine's capacity.

Carillon's lag comes from Postgres' record: the trigger's start minus ``due_at``. Celery's beat keeps no record, so its
tasks stamp their start. All its entries count from the moment at which it loaded them, so the n-th firing of each is
due n intervals after that moment. The bench takes that moment to be the one with which the promptest execution of all
has no lag.

For the half, capacity is measured first: triggers a second from registered to succeeded. Then interval jobs fire at
half that rate. They are watched once the firings are past that were materialized in one go when the jobs were new.
"""

import json
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import carillon
from benchmarks.peers.schedulers import stamps
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import WORKER_PROCESSES, ManagedProcess, Stage

JOBS = 60
SECONDS, MIN_SECONDS = 30.0, 6.0
#: 2 to 10 s, no two alike: in step they would make a small herd every few seconds, which is not calm.
INTERVALS = [timedelta(seconds=2 + 8 * i / JOBS) for i in range(JOBS)]
CAPACITY_TRIGGERS = 20_000
FLEET_EVERY = timedelta(seconds=10)
FLEET_LEAD = timedelta(seconds=20)
#: A new fleet's firings within the look-ahead are materialized at once; after this long they are past.
SETTLING_SECONDS = 40.0


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shortens the watches and shrinks the load that capacity is measured with."""
    seconds = max(MIN_SECONDS, SECONDS * scale)
    calm, our_weight = _ours(stage, seconds)
    theirs, their_weight = _peer(stage, seconds)
    capacity, half = _at_half(stage, seconds, scale)
    return Report(
        name="lag",
        title=f"Start lag of {JOBS} interval jobs in {seconds:g} s of calm, and at half of capacity",
        unit="ms, p99 in calm",
        ours=percentile(calm, 0.99),
        peer=percentile(theirs, 0.99),
        ratio=percentile(theirs, 0.99) / percentile(calm, 0.99),
        columns=("p50 ms", "p99 ms", "firings", "beat MiB", "worker MiB"),
        rows=(
            _row("Carillon", calm, *(f"{mib:.0f}" for mib in our_weight)),
            _row("Celery beat", theirs, *(f"{mib:.0f}" for mib in their_weight)),
            _row(f"Carillon at {capacity / 2:,.0f} a second", half, "", ""),
        ),
        more={
            "ours_p50_ms": round(percentile(calm, 0.5), 2),
            "peer_p50_ms": round(percentile(theirs, 0.5), 2),
            "firings": len(calm),
            "ours_beat_rss_mib": round(our_weight[0], 1),
            "ours_worker_rss_mib": round(our_weight[1], 1),
            "peer_beat_rss_mib": round(their_weight[0], 1),
            "peer_worker_rss_mib": round(their_weight[1], 1),
            "capacity_per_second": round(capacity, 1),
            "half_p50_ms": round(percentile(half, 0.5), 2),
            "half_p99_ms": round(percentile(half, 0.99), 2),
            "half_firings": len(half),
        },
    )


def _row(name: str, lags: list[float], *weight: str) -> Row:
    return Row(
        name, (f"{percentile(lags, 0.5):.1f}", f"{percentile(lags, 0.99):.1f}", f"{len(lags):,}", *weight)
    )


def _ours(stage: Stage, seconds: float) -> tuple[list[float], tuple[float, float]]:
    with carillon.running(stage) as (beat, worker):
        since = carillon.add_interval_jobs(stage, INTERVALS)
        weight = _watch(stage, f"Carillon: {JOBS} interval jobs", beat, worker, seconds)
        until = stage.value("SELECT clock_timestamp()")
        return carillon.lags(stage, carillon.TENANT, since=since, until=until), weight


def _peer(stage: Stage, seconds: float) -> tuple[list[float], tuple[float, float]]:
    stage.empty()
    entries = {f"entry-{i}": every.total_seconds() for i, every in enumerate(INTERVALS)}
    celery = ("-m", "celery", "-A", "benchmarks.peers.schedulers.celery_beat")
    with TemporaryDirectory(prefix="carillon-bench-beat-") as directory:
        schedule = Path(directory) / "entries.json"
        schedule.write_text(json.dumps(entries))
        environment = {
            "BENCH_BROKER": stage.broker_url,
            "BENCH_REDIS": stage.redis_url,
            "BENCH_ENTRIES": str(schedule),
        }
        worker_argv = (*celery, "worker", "-c", str(WORKER_PROCESSES))
        beat_argv = (*celery, "beat", "--pidfile=", "-s", str(Path(directory) / "schedule"))
        with (
            stage.actor("celery-worker", worker_argv, environment=environment) as worker,
            stage.actor("celery-beat", beat_argv, environment=environment) as beat,
        ):
            stage.must("Celery beat: starting", lambda: stamps.count(stage) > 0)
            weight = _watch(stage, f"Celery beat: {JOBS} interval entries", beat, worker, seconds)
    loaded_at = [
        start - n * entries[entry]
        for entry, starts in stamps.by_entry(stage).items()
        for n, start in enumerate(starts, 1)
    ]
    return [1000 * (at - min(loaded_at)) for at in loaded_at], weight


def _at_half(stage: Stage, seconds: float, scale: float) -> tuple[float, list[float]]:
    """Capacity in triggers a second, and the lags at half of it."""
    with carillon.running(stage):
        capacity = capacity_of_drain(stage, scale)
        settle(stage, capacity / 2, scale)
        since = stage.value("SELECT clock_timestamp()")
        stage.pause(f"Carillon: {capacity / 2:,.0f} firings a second", seconds)
        until = stage.value("SELECT clock_timestamp()")
        return capacity, carillon.lags(stage, carillon.TENANT, since=since, until=until)


def capacity_of_drain(stage: Stage, scale: float) -> float:
    """Triggers a second, of one-time jobs that are due at once: from registered to succeeded."""
    probe = carillon.add_one_time_jobs(stage, int(CAPACITY_TRIGGERS * scale), due_in=timedelta())
    return probe.count / carillon.drain(stage, probe, what="Carillon: measuring capacity")


def settle(stage: Stage, rate: float, scale: float) -> None:
    """Make interval jobs fire ``rate`` times a second from now on. Returns when they do so evenly."""
    jobs = int(rate * FLEET_EVERY.total_seconds())
    first = carillon.add_fleet(stage, jobs, every=FLEET_EVERY, first_in=FLEET_LEAD * min(1.0, scale))
    settling = (FLEET_LEAD.total_seconds() + SETTLING_SECONDS) * min(1.0, scale)
    stage.pause(f"Carillon: settling at {rate:,.0f} firings a second", settling)
    stage.must("Carillon: the first of them", lambda: stage.value("SELECT clock_timestamp()") >= first)


def _watch(
    stage: Stage, what: str, beat: ManagedProcess, worker: ManagedProcess, seconds: float
) -> tuple[float, float]:
    """Watch for ``seconds``. Returns the resident memory of beat and worker at the end, in MiB."""
    stage.pause(what, seconds)
    return beat.rss_mib(), worker.rss_mib()

"""Soak: a quarter of an hour at half of capacity. Do firings become later, and beat and worker larger, with time?

The peer is the first third of the watch. Lag is measured as in ``lag``. Capacity is the highest rate that interval jobs
are seen to keep. A backlog of one-time jobs is worked off faster: its batches are full, and no job has a next instant.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from benchmarks import carillon
from benchmarks.lag import capacity_of_drain, settle
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import BenchError, Stage

SECONDS, THIRDS = 900.0, ("first", "second", "last")
#: Parts of a third: minutes, at full scale.
PARTS = 5
#: The rates that are tried, the highest first, as shares of that at which a backlog is worked off.
SHARES = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
#: A rate is kept if firings of so many seconds have a p99 lag below this.
TRIAL_SECONDS, KEPT_MS = 20.0, 1000.0


@dataclass(frozen=True)
class _Third:
    """Lags in ms, by part; resident memory at its end in MiB."""

    parts: list[list[float]]
    beat_mib: float
    worker_mib: float

    @property
    def lags(self) -> list[float]:
        return [lag for part in self.parts for lag in part]

    @property
    def p99(self) -> float:
        return percentile(self.lags, 0.99)

    def row(self, name: str) -> Row:
        p50 = percentile(self.lags, 0.5)
        weight = f"{self.beat_mib:.1f}", f"{self.worker_mib:.1f}"
        return Row(f"{name} third", (f"{p50:.1f}", f"{self.p99:.1f}", f"{len(self.lags):,}", *weight))


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shortens the watch and shrinks the load that capacity is measured with."""
    capacity, thirds = _watch(stage, scale)
    first, last = thirds[0], thirds[-1]
    return Report(
        name="soak",
        title=f"{SECONDS * scale:,.0f} s at half of capacity, {capacity / 2:,.0f} firings a second",
        unit="ms, p99 of the start lag in the last third; peer: in the first",
        ours=last.p99,
        peer=first.p99,
        ratio=first.p99 / last.p99,
        columns=("p50 ms", "p99 ms", "firings", "beat MiB", "worker MiB"),
        rows=tuple(third.row(name) for name, third in zip(THIRDS, thirds, strict=True)),
        more={
            "capacity_per_second": round(capacity, 1),
            "firings": sum(len(third.lags) for third in thirds),
            "beat_growth": round(last.beat_mib / first.beat_mib, 3),
            "worker_growth": round(last.worker_mib / first.worker_mib, 3),
            "p99_by_part": [round(percentile(part, 0.99)) for third in thirds for part in third.parts],
        },
    )


def _capacity(stage: Stage, scale: float) -> float:
    """The highest rate of firings a second that interval jobs keep, of those tried."""
    with carillon.running(stage):
        drained = capacity_of_drain(stage, scale)
    for share in SHARES:
        with carillon.running(stage):
            settle(stage, drained * share, scale)
            since = _now(stage)
            stage.pause(f"Carillon: trying {drained * share:,.0f} firings a second", TRIAL_SECONDS * scale)
            lags = carillon.lags(stage, carillon.TENANT, since=since, until=_now(stage))
        if percentile(lags, 0.99) < KEPT_MS:
            return drained * share
    raise BenchError(f"Interval jobs do not even fire {drained * SHARES[-1]:,.0f} times a second in time.")


def _watch(stage: Stage, scale: float) -> tuple[float, list[_Third]]:
    capacity = _capacity(stage, scale)
    with carillon.running(stage) as (beat, worker):
        settle(stage, capacity / 2, scale)
        marks = [_now(stage)]
        weights: list[tuple[float, float]] = []
        for name in THIRDS:
            for part in range(1, PARTS + 1):
                what = f"Carillon: {capacity / 2:,.0f} firings a second, {name} third, {part} of {PARTS}"
                stage.pause(what, SECONDS * scale / len(THIRDS) / PARTS)
                marks.append(_now(stage))
            weights.append((beat.rss_mib(), worker.rss_mib()))
        parts = [
            carillon.lags(stage, carillon.TENANT, since=since, until=until)
            for since, until in pairwise(marks)
        ]
        return capacity, [
            _Third(parts[nth * PARTS : (nth + 1) * PARTS], *weight) for nth, weight in enumerate(weights)
        ]


def _now(stage: Stage) -> datetime:
    now: datetime = stage.value("SELECT clock_timestamp()")
    return now

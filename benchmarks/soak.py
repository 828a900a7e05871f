"""Soak: a quarter of an hour at half of capacity. Do firings become later, and beat and worker larger, with time?

The peer is the first third of the watch. Capacity and lag are measured as in ``lag``.
"""

from dataclasses import dataclass
from datetime import datetime

from benchmarks import carillon
from benchmarks.lag import settle_at_half
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

SECONDS, THIRDS = 900.0, ("first", "second", "last")


@dataclass(frozen=True)
class _Third:
    """Lags in ms; resident memory at its end in MiB."""

    lags: list[float]
    beat_mib: float
    worker_mib: float

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
        },
    )


def _watch(stage: Stage, scale: float) -> tuple[float, list[_Third]]:
    with carillon.running(stage) as (beat, worker):
        capacity = settle_at_half(stage, scale)
        spans: list[tuple[datetime, datetime, float, float]] = []
        for name in THIRDS:
            since = stage.value("SELECT clock_timestamp()")
            stage.pause(
                f"Carillon: {capacity / 2:,.0f} firings a second, {name} third", SECONDS * scale / len(THIRDS)
            )
            until = stage.value("SELECT clock_timestamp()")
            spans.append((since, until, beat.rss_mib(), worker.rss_mib()))
        return capacity, [
            _Third(carillon.lags(stage, carillon.TENANT, since=since, until=until), beat_mib, worker_mib)
            for since, until, beat_mib, worker_mib in spans
        ]

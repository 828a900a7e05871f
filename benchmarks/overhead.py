"""Overhead: the cost of Carillon's own counts, and of traces, for a firing, beside the same Carillon without them.

Three ways take turns: as shipped; without counts; and as shipped, but with a tenth of all traces recorded. Each turn
has processes of its own and runs no-ops end to end, on emptied tables. Other work on the machine changes a rate more
than the CPU time, so the CPU time of beat, worker and Postgres together is compared, too. A ratio is the median of the
rounds' ratios.

On a noisy machine rounds differ by more than counts cost. So the processes also time their counting themselves
(``benchmarks.carillon.timed``), in Python and in Postgres.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import carillon
from benchmarks.carillon.times import TIMES, spent
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage
from benchmarks.stage.processor import processor_time

ROUNDS, SMALL = 6, 0.2
TRIGGERS = 80_000
SHIPPED, UNCOUNTED, TRACED = "as shipped", "without counts", "with traces of a tenth"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
TIMED_APP, UNCOUNTED_APP = "benchmarks.carillon.timed", "benchmarks.carillon.uncounted"
#: Until the leader has planned the statement that adds up counts: that is done once. And until the last reports are
#: written.
PLANNED_SECONDS, WRITTEN_SECONDS = 12.0, 1.5


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    count = int(TRIGGERS * scale)
    rounds = ROUNDS if scale >= SMALL else 1
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    of_counts: list[float] = []
    with stage.server("collector", lambda port: ("-m", "benchmarks.peers.http.collector", str(port))) as url:
        traced = SAMPLED | {"OTEL_EXPORTER_OTLP_ENDPOINT": url.rstrip("/")}
        ways: dict[str, tuple[str, Mapping[str, str]]] = {
            SHIPPED: (TIMED_APP, {}),
            UNCOUNTED: (UNCOUNTED_APP, {}),
            TRACED: (TIMED_APP, traced),
        }
        for number in range(rounds):
            # Each way comes first, second and last as often as the others.
            names = list(ways)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                rate, cost, counts = _turn(stage, name, count, *ways[name])
                rates[name].append(rate)
                costs[name].append(cost)
                if name == SHIPPED:
                    of_counts.append(counts)
    if not all(of_counts):
        raise BenchError("No counting was timed: are the names in benchmarks.carillon.timed those of today?")
    pairs = zip(costs[SHIPPED], of_counts, strict=True)
    return Report(
        name="overhead",
        title=f"What counts and traces cost a firing, {rounds} rounds of {count:,}",
        unit="us of processor a firing, as shipped; peer: without counts",
        ours=median(costs[SHIPPED]),
        peer=median(costs[UNCOUNTED]),
        ratio=_ratio(costs, UNCOUNTED, SHIPPED),
        columns=("us of processor", "a second"),
        rows=(
            *(Row(name, (f"{median(costs[name]):.1f}", f"{median(rates[name]):,.0f}")) for name in costs),
            Row("counts, as timed", (f"{median(of_counts):.2f}", "")),
        ),
        more={
            "counts_us": round(median(of_counts), 2),
            "counts_share": round(median(counts / cost for cost, counts in pairs), 4),
            "counts_cost": round(_ratio(costs, SHIPPED, UNCOUNTED), 3),
            "counts_rate": round(_ratio(rates, SHIPPED, UNCOUNTED), 3),
            "traces_cost": round(_ratio(costs, TRACED, SHIPPED), 3),
            "traces_rate": round(_ratio(rates, TRACED, SHIPPED), 3),
            "costs": {name: [round(cost, 1) for cost in found] for name, found in costs.items()},
            "of_counts": [round(counts, 2) for counts in of_counts],
        },
    )


def _ratio(found: Mapping[str, list[float]], of: str, to: str) -> float:
    return median(one / other for one, other in zip(found[of], found[to], strict=True))


def _turn(
    stage: Stage, name: str, count: int, app: str, environment: Mapping[str, str]
) -> tuple[float, float, float]:
    """Firings a second, and the CPU microseconds of one: in all, and those of counting where the app times it."""
    with (
        TemporaryDirectory() as times,
        carillon.running(stage, app=app, environment={TIMES: times, **environment}) as (beat, worker),
    ):
        stage.pause(f"Carillon, {name}: the counts so far", PLANNED_SECONDS)
        before = spent(Path(times))
        with processor_time(stage, beat=beat.process.pid, worker=worker.process.pid) as taken:
            batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
            seconds = carillon.drain(stage, batch, what=f"Carillon, {name}: {count:,} triggers")
        stage.pause(f"Carillon, {name}: the last counts", WRITTEN_SECONDS)
        counting = spent(Path(times)) - before
    return count / seconds, 1e6 * sum(taken.values()) / count, 1e6 * counting / count

"""Overhead: the cost of Carillon's own counts, and of traces, for a firing.

No-ops run end to end, on emptied tables. Other work on the machine changes a rate more than the CPU time, so the CPU
time of beat, worker and Postgres together is compared.

Counts cost so little that runs with and without them differ by more than that. So the processes time their counting
themselves (``benchmarks.carillon.timed``), in Python and in Postgres; its cost is compared with that of the same run
without it. Traces are in many places, so Carillon as shipped, and with a tenth of all traces recorded, take turns, with
processes of their own. Each ratio is the median of the rounds'.
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
from benchmarks.stage import Stage
from benchmarks.stage.processor import processor_time

ROUNDS, SMALL = 8, 0.2
TRIGGERS = 40_000
SHIPPED, TRACED = "as shipped", "with traces of a tenth"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
TIMED_APP = "benchmarks.carillon.timed"
#: Until the counts of the last firings are written.
WRITTEN_SECONDS = 3.0


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    count = int(TRIGGERS * scale)
    rounds = ROUNDS if scale >= SMALL else 1
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    of_counts: list[float] = []
    with stage.server("collector", lambda port: ("-m", "benchmarks.peers.http.collector", str(port))) as url:
        traced = SAMPLED | {"OTEL_EXPORTER_OTLP_ENDPOINT": url.rstrip("/")}
        for number in range(rounds):
            # Each way comes first as often as the other.
            for name in (SHIPPED, TRACED)[:: -1 if number % 2 else 1]:
                rate, cost, counts = _turn(stage, name, count, traced if name == TRACED else {})
                rates[name].append(rate)
                costs[name].append(cost)
                if name == SHIPPED:
                    of_counts.append(counts)
    pairs = list(zip(costs[SHIPPED], of_counts, strict=True))
    without = [cost - counts for cost, counts in pairs]
    return Report(
        name="overhead",
        title=f"What counts and traces cost a firing, {rounds} rounds of {count:,}",
        unit="us of processor a firing, as shipped; peer: less what counts take",
        ours=median(costs[SHIPPED]),
        peer=median(without),
        ratio=median((cost - counts) / cost for cost, counts in pairs),
        columns=("us of processor", "a second"),
        rows=(
            *(Row(name, (f"{median(costs[name]):.1f}", f"{median(rates[name]):,.0f}")) for name in costs),
            Row("counts", (f"{median(of_counts):.2f}", "")),
        ),
        more={
            "counts_us": round(median(of_counts), 2),
            "counts_cost": round(median(cost / (cost - counts) for cost, counts in pairs), 4),
            "traces_cost": round(_ratio(costs, TRACED, SHIPPED), 3),
            "traces_rate": round(_ratio(rates, TRACED, SHIPPED), 3),
            "costs": {name: [round(cost, 1) for cost in found] for name, found in costs.items()},
            "of_counts": [round(counts, 2) for counts in of_counts],
        },
    )


def _ratio(found: Mapping[str, list[float]], of: str, to: str) -> float:
    return median(one / other for one, other in zip(found[of], found[to], strict=True))


def _turn(stage: Stage, name: str, count: int, environment: Mapping[str, str]) -> tuple[float, float, float]:
    """Firings a second, and the CPU microseconds of one: in all, and those of counting."""
    with (
        TemporaryDirectory() as times,
        carillon.running(stage, app=TIMED_APP, environment={TIMES: times, **environment}) as (beat, worker),
    ):
        stage.pause(f"Carillon, {name}: the counts so far", WRITTEN_SECONDS)
        before = spent(Path(times))
        with processor_time(stage, beat=beat.process.pid, worker=worker.process.pid) as taken:
            batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
            seconds = carillon.drain(stage, batch, what=f"Carillon, {name}: {count:,} triggers")
        stage.pause(f"Carillon, {name}: the last counts", WRITTEN_SECONDS)
        counting = spent(Path(times)) - before
    return count / seconds, 1e6 * sum(taken.values()) / count, 1e6 * counting / count

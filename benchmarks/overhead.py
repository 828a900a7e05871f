"""Overhead: the cost of Carillon's own counts, and of traces, for a firing, beside the same Carillon without them.

Three ways take turns: as shipped; without counts; and as shipped, but with a tenth of all traces recorded. Each turn
has processes of its own and runs no-ops end to end, on emptied tables. Other work on the machine changes a rate more
than the CPU time, so the CPU time of beat, worker and Postgres together is compared, too. A ratio is the median of the
rounds' ratios.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from statistics import median
from typing import Any

from benchmarks import carillon
from benchmarks.report import Report, Row
from benchmarks.stage import Stage
from benchmarks.stage.processor import processor_time

ROUNDS, SMALL = 8, 0.2
TRIGGERS = 40_000
SHIPPED, UNCOUNTED, TRACED = "as shipped", "without counts", "with traces of a tenth"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
UNCOUNTED_APP = "benchmarks.carillon.uncounted"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    count = int(TRIGGERS * scale)
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    with stage.server("collector", lambda port: ("-m", "benchmarks.peers.http.collector", str(port))) as url:
        traced = SAMPLED | {"OTEL_EXPORTER_OTLP_ENDPOINT": url.rstrip("/")}
        ways: dict[str, Mapping[str, Any]] = {
            SHIPPED: {},
            UNCOUNTED: {"app": UNCOUNTED_APP},
            TRACED: {"environment": traced},
        }
        for number in range(ROUNDS if scale >= SMALL else 1):
            # Each way comes first, second and last as often as the others.
            names = list(ways)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                rate, cost = _turn(stage, name, count, ways[name])
                rates[name].append(rate)
                costs[name].append(cost)
    return Report(
        name="overhead",
        title=f"What counts and traces cost a firing, {len(rates[SHIPPED])} rounds of {count:,}",
        unit="us of processor a firing, as shipped; peer: without counts",
        ours=median(costs[SHIPPED]),
        peer=median(costs[UNCOUNTED]),
        ratio=_ratio(costs, UNCOUNTED, SHIPPED),
        columns=("us of processor", "a second"),
        rows=tuple(
            Row(name, (f"{median(costs[name]):.1f}", f"{median(rates[name]):,.0f}")) for name in costs
        ),
        more={
            "counts_cost": round(_ratio(costs, SHIPPED, UNCOUNTED), 3),
            "counts_rate": round(_ratio(rates, SHIPPED, UNCOUNTED), 3),
            "traces_cost": round(_ratio(costs, TRACED, SHIPPED), 3),
            "traces_rate": round(_ratio(rates, TRACED, SHIPPED), 3),
            "costs": {name: [round(cost, 1) for cost in found] for name, found in costs.items()},
        },
    )


def _ratio(found: Mapping[str, list[float]], of: str, to: str) -> float:
    return median(one / other for one, other in zip(found[of], found[to], strict=True))


def _turn(stage: Stage, name: str, count: int, way: Mapping[str, Any]) -> tuple[float, float]:
    """Firings a second, and the CPU microseconds of one."""
    with (
        carillon.running(stage, **way) as (beat, worker),
        processor_time(stage, beat=beat.process.pid, worker=worker.process.pid) as taken,
    ):
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        seconds = carillon.drain(stage, batch, what=f"Carillon, {name}: {count:,} triggers")
    return count / seconds, 1e6 * sum(taken.values()) / count

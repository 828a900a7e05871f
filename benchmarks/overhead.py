"""Overhead: the cost of Carillon's own counts, and of traces, for a firing, beside the same Carillon without them.

Other work on the machine changes a rate more than the CPU time, so the CPU time of beat, worker and Postgres together
is compared.

Counts cost so little that runs end to end differ by more. So interval jobs fire at half of capacity, as in ``lag``, and
the same processes count, and do not, in slices of time that take turns (``benchmarks.carillon.counting``). Each slice
is compared with the mean of the two around it, which are of the other kind: what becomes slower evenly changes nothing.
The cost is the mean of these differences. It is given as a share of a firing end to end: the cheapest way to fire, so
the largest share.

Traces are set up when a process starts. Carillon as shipped, and with a tenth of all traces recorded, take turns with
processes of their own, end to end. The cost is the median of the rounds' ratios.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean, median, stdev

from benchmarks import carillon
from benchmarks.carillon.counting import SLICE_SECONDS, counts
from benchmarks.lag import settle_at_half
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage
from benchmarks.stage.processor import processor_slices, processor_time

ROUNDS, SMALL = 8, 0.2
TRIGGERS = 40_000
#: Slices of counting by turns, and how many comparisons tell anything.
SLICES, FEWEST = 100, 3
COUNTED, UNCOUNTED = "slices with counts", "slices without counts"
SHIPPED, TRACED = "as shipped", "with traces of a tenth"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
COUNTING_APP = "benchmarks.carillon.counting"
_FINISHED = """
    SELECT floor(extract(epoch FROM finished_at) / %(slice_seconds)s)::bigint, count(*) FROM jobs_trigger
    WHERE state = 'succeeded' GROUP BY 1
"""


@dataclass(frozen=True)
class _Figures:
    """CPU microseconds of a firing, and firings a second."""

    cost: float
    rate: float


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts and shortens the watch."""
    slices = _slices(stage, scale)
    figures: dict[str, list[_Figures]] = defaultdict(list)
    for number, of in slices.items():
        figures[COUNTED if counts(number) else UNCOUNTED].append(of)
    differences = _differences(slices)
    if len(differences) < FEWEST:
        raise BenchError(f"Only {len(differences)} slices can be compared: use a larger --scale.")
    count = int(TRIGGERS * scale)
    rounds = ROUNDS if scale >= SMALL else 1
    with stage.server("collector", lambda port: ("-m", "benchmarks.peers.http.collector", str(port))) as url:
        ways = {SHIPPED: {}, TRACED: SAMPLED | {"OTEL_EXPORTER_OTLP_ENDPOINT": url.rstrip("/")}}
        for number in range(rounds):
            # Each way comes first as often as the other.
            for name in sorted(ways, reverse=bool(number % 2)):
                figures[name].append(_turn(stage, name, count, ways[name]))
    pairs = list(zip(figures[TRACED], figures[SHIPPED], strict=True))
    of_counts, shipped = fmean(differences), median(of.cost for of in figures[SHIPPED])
    error = stdev(differences) / len(differences) ** 0.5
    return Report(
        name="overhead",
        title=f"What counts and traces cost a firing, {len(slices)} slices, {rounds} rounds of {count:,}",
        unit="us of processor a firing end to end, as shipped; peer: less what counts cost",
        ours=shipped,
        peer=shipped - of_counts,
        ratio=(shipped - of_counts) / shipped,
        columns=("us of processor", "a second", "of"),
        rows=tuple(
            Row(
                name,
                (f"{median(o.cost for o in of):.1f}", f"{median(o.rate for o in of):,.0f}", f"{len(of)}"),
            )
            for name, of in figures.items()
        ),
        more={
            "counts_us": round(of_counts, 2),
            "counts_us_error": round(error, 2),
            "counts_cost": round(shipped / (shipped - of_counts), 4),
            "traces_cost": round(median(traced.cost / shipped.cost for traced, shipped in pairs), 3),
            "traces_rate": round(median(traced.rate / shipped.rate for traced, shipped in pairs), 3),
            "costs": {name: [round(one.cost, 1) for one in of] for name, of in figures.items()},
        },
    )


def _differences(slices: Mapping[int, _Figures]) -> list[float]:
    """With counts less without, in CPU microseconds of a firing, for each slice and the mean of the two around it."""
    found = []
    for number, of in slices.items():
        if {number - 1, number + 1} <= slices.keys():
            more = of.cost - fmean((slices[number - 1].cost, slices[number + 1].cost))
            found.append(more if counts(number) else -more)
    return found


def _slices(stage: Stage, scale: float) -> dict[int, _Figures]:
    """By slice: its figures."""
    with carillon.running(stage, app=COUNTING_APP) as (beat, worker):
        capacity = settle_at_half(stage, scale)
        pids = beat.process.pid, worker.process.pid
        with processor_slices(stage, *pids, slice_seconds=SLICE_SECONDS) as taken:
            what = f"Carillon, counting by turns: {capacity / 2:,.0f} firings a second"
            stage.pause(what, SLICES * SLICE_SECONDS * scale)
        finished = dict(stage.db.execute(_FINISHED, {"slice_seconds": SLICE_SECONDS}))
    return {
        number: _Figures(1e6 * seconds / finished[number], finished[number] / SLICE_SECONDS)
        for number, seconds in taken.items()
        if finished.get(number)
    }


def _turn(stage: Stage, name: str, count: int, environment: Mapping[str, str]) -> _Figures:
    with (
        carillon.running(stage, environment=environment) as (beat, worker),
        processor_time(stage, beat=beat.process.pid, worker=worker.process.pid) as taken,
    ):
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        seconds = carillon.drain(stage, batch, what=f"Carillon, {name}: {count:,} triggers")
    return _Figures(1e6 * sum(taken.values()) / count, count / seconds)

"""Overhead: the cost of Carillon's own counts, and of traces, for a firing, beside the same Carillon without them.

No-ops run end to end, on emptied tables. Other work on the machine changes a rate more than the CPU time, so the CPU
time of beat, worker and Postgres together is compared, too.

Counts cost so little that whole runs differ by more. So the same processes count, and do not, in slices of time that
take turns (``benchmarks.carillon.counting``). Each slice is compared with the mean of the two around it, which are of
the other kind: what becomes slower evenly changes nothing. The cost is the median of these ratios.

Traces are set up when a process starts. Carillon as shipped, and with a tenth of all traces recorded, take turns with
processes of their own. The cost is the median of the rounds' ratios.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import mean, median

from benchmarks import carillon
from benchmarks.carillon.counting import SLICE_SECONDS, counts
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage
from benchmarks.stage.processor import processor_slices, processor_time

ROUNDS, SMALL = 8, 0.2
#: Of a round of counting by turns: some twelve slices.
SLICED = 160_000
TRIGGERS = 40_000
COUNTED, UNCOUNTED = "slices with counts", "slices without counts"
SHIPPED, TRACED = "as shipped", "with traces of a tenth"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}
COUNTING_APP = "benchmarks.carillon.counting"
_FINISHED = """
    SELECT floor(extract(epoch FROM finished_at) / %(slice_seconds)s)::bigint, count(*) FROM jobs_trigger
    WHERE tenant_id = %(tenant_id)s AND state = 'succeeded' GROUP BY 1
"""


@dataclass(frozen=True)
class _Figures:
    """CPU microseconds of a firing, and firings a second."""

    cost: float
    rate: float


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    rounds = ROUNDS if scale >= SMALL else 1
    figures: dict[str, list[_Figures]] = defaultdict(list)
    cost_of_counts, rate_of_counts = [], []
    for _ in range(rounds):
        found = _slices(stage, int(SLICED * scale))
        for number, of in found.items():
            figures[COUNTED if counts(number) else UNCOUNTED].append(of)
        cost_of_counts += _ratios({number: of.cost for number, of in found.items()})
        rate_of_counts += _ratios({number: of.rate for number, of in found.items()})
    if not cost_of_counts:
        raise BenchError(
            f"The runs were over within three slices of {SLICE_SECONDS:g} s: use a larger --scale."
        )
    count = int(TRIGGERS * scale)
    with stage.server("collector", lambda port: ("-m", "benchmarks.peers.http.collector", str(port))) as url:
        ways = {SHIPPED: {}, TRACED: SAMPLED | {"OTEL_EXPORTER_OTLP_ENDPOINT": url.rstrip("/")}}
        for number in range(rounds):
            # Each way comes first as often as the other.
            for name in sorted(ways, reverse=bool(number % 2)):
                figures[name].append(_turn(stage, name, count, ways[name]))
    pairs = list(zip(figures[TRACED], figures[SHIPPED], strict=True))
    return Report(
        name="overhead",
        title=f"What counts and traces cost a firing, {rounds} rounds of {SLICED * scale:,.0f} and {count:,}",
        unit="us of processor a firing, in slices with counts; peer: in slices without",
        ours=median(of.cost for of in figures[COUNTED]),
        peer=median(of.cost for of in figures[UNCOUNTED]),
        ratio=1 / median(cost_of_counts),
        columns=("us of processor", "a second", "of"),
        rows=tuple(
            Row(
                name,
                (f"{median(o.cost for o in of):.1f}", f"{median(o.rate for o in of):,.0f}", f"{len(of)}"),
            )
            for name, of in figures.items()
        ),
        more={
            "counts_cost": round(median(cost_of_counts), 4),
            "counts_rate": round(median(rate_of_counts), 4),
            "counts_compared": len(cost_of_counts),
            "traces_cost": round(median(traced.cost / shipped.cost for traced, shipped in pairs), 3),
            "traces_rate": round(median(traced.rate / shipped.rate for traced, shipped in pairs), 3),
            "costs": {name: [round(one.cost, 1) for one in of] for name, of in figures.items()},
        },
    )


def _ratios(by_number: Mapping[int, float]) -> list[float]:
    """With counts to without, for each slice and the mean of the two around it."""
    found = []
    for number, value in by_number.items():
        if {number - 1, number + 1} <= by_number.keys():
            around = mean((by_number[number - 1], by_number[number + 1]))
            found.append(value / around if counts(number) else around / value)
    return found


def _slices(stage: Stage, count: int) -> dict[int, _Figures]:
    """By slice: its figures. Without the slices in which the run begins and ends."""
    with (
        carillon.running(stage, app=COUNTING_APP) as (beat, worker),
        processor_slices(stage, beat.process.pid, worker.process.pid, slice_seconds=SLICE_SECONDS) as taken,
    ):
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        carillon.drain(stage, batch, what=f"Carillon, counting by turns: {count:,} triggers")
    names = {"slice_seconds": SLICE_SECONDS, "tenant_id": batch.tenant_id}
    finished = dict(stage.db.execute(_FINISHED, names))
    begins, ends = int(batch.begins_at.timestamp() // SLICE_SECONDS), max(finished)
    return {
        number: _Figures(1e6 * seconds / finished[number], finished[number] / SLICE_SECONDS)
        for number, seconds in taken.items()
        if begins < number < ends and finished.get(number)
    }


def _turn(stage: Stage, name: str, count: int, environment: Mapping[str, str]) -> _Figures:
    with (
        carillon.running(stage, environment=environment) as (beat, worker),
        processor_time(stage, beat=beat.process.pid, worker=worker.process.pid) as taken,
    ):
        batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
        seconds = carillon.drain(stage, batch, what=f"Carillon, {name}: {count:,} triggers")
    return _Figures(1e6 * sum(taken.values()) / count, count / seconds)

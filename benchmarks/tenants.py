"""Tenants: 300 triggers due of each of 1 to 10,000 tenants; does a turn's cost follow dispatched or waiting triggers?

The peer is Carillon with one tenant that has as many triggers due as the largest backlog. So its tables are as large,
and only the number of tenants differs; with 300 triggers it would run dry in a turn. A leader whose workers take no
time is watched for some seconds at each size. The rate is of the leader's own time. Meanwhile each of some newcomers, a
tenant of its own, has one critical trigger that falls due. A trigger that has not started when the watch ends counts as
late as it is then.
"""

from dataclasses import dataclass
from datetime import timedelta

from benchmarks import carillon
from benchmarks.carillon.leader import cpu_rate, failed, leading, rate
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

SIZES = (1, 100, 1_000, 4_000, 10_000)
JOBS, TRIGGERS = 30, 10
WATCH_SECONDS, MIN_SECONDS = 20.0, 5.0
#: The one tenant has at least this many jobs in a small run.
MIN_JOBS_OF_ONE = 3_000
NEWCOMERS = 10
#: From the creation of the newcomers until the first of their triggers is due, and from the last one until the watch
#: ends.
LEAD, TAIL = timedelta(seconds=1), timedelta(seconds=2)
_LEFT = """
    SELECT EXISTS (SELECT 1 FROM jobs_trigger WHERE phase = 'pending' AND priority <> 0
                   AND due_at < clock_timestamp())
"""


@dataclass(frozen=True)
class Course:
    """The leader's results with the backlogs of ``tenants``; times in ms."""

    tenants: int
    due: int
    rate: float
    cpu_rate: float
    dispatched: int
    turn_p50: float
    turn_worst: float
    failed: int
    newcomers: list[float]

    def row(self) -> Row:
        figures = (
            f"{self.rate:,.0f}",
            f"{self.cpu_rate:,.0f}",
            f"{self.dispatched:,}",
            f"{self.turn_p50:,.0f}",
            f"{self.turn_worst:,.0f}",
            f"{self.failed}",
            f"{percentile(self.newcomers, 0.5):,.0f}",
            f"{max(self.newcomers):,.0f}",
        )
        return Row(f"{self.tenants:,} with {self.due // self.tenants:,} due", figures)

    def json(self) -> dict[str, float]:
        return {
            "per_second": round(self.rate, 1),
            "per_cpu_second": round(self.cpu_rate, 1),
            "dispatched": self.dispatched,
            "turn_p50_ms": round(self.turn_p50, 1),
            "turn_worst_ms": round(self.turn_worst, 1),
            "turns_failed": self.failed,
            "newcomer_p50_ms": round(percentile(self.newcomers, 0.5), 1),
            "newcomer_worst_ms": round(max(self.newcomers), 1),
        }


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the backlogs and the watch."""
    sizes = list(dict.fromkeys(max(1, int(size * scale)) for size in SIZES))
    seconds = max(MIN_SECONDS, WATCH_SECONDS * min(1.0, scale))
    alone = max(MIN_JOBS_OF_ONE, JOBS * sizes[-1])
    found = {size: _course(stage, size, alone if size == 1 else JOBS, seconds) for size in sizes}
    one, most = found[sizes[0]], found[sizes[-1]]
    return Report(
        name="tenants",
        title=f"{JOBS * TRIGGERS} triggers due of each tenant, a leader whose workers take no time, {seconds:g} s",
        unit=f"dispatched per second of the leader's time with {most.tenants:,} tenants; peer: with one",
        ours=most.rate,
        peer=one.rate,
        ratio=most.rate / one.rate,
        columns=(
            "per s",
            "per CPU s",
            "dispatched",
            "turn ms",
            "longest",
            "failed",
            "newcomer ms",
            "latest",
        ),
        rows=tuple(course.row() for course in found.values()),
        more={
            "ratios": {str(size): round(course.rate / one.rate, 3) for size, course in found.items()},
            "cpu_ratios": {
                str(size): round(course.cpu_rate / one.cpu_rate, 3) for size, course in found.items()
            },
            "newcomer_worst_ms": round(max(max(course.newcomers) for course in found.values()), 1),
            "by_tenants": {str(size): course.json() for size, course in found.items()},
        },
    )


def _course(stage: Stage, tenants: int, jobs: int, seconds: float) -> Course:
    """Lead for ``seconds`` over the triggers of ``jobs`` jobs of each tenant."""
    stage.empty()
    carillon.add_backlog(stage, "crowd", tenants, jobs_each=jobs, triggers_each=TRIGGERS, news=False)
    stage.say(f"{tenants:,} tenants: analyzing")
    stage.settle()
    with leading(stage) as leader:
        newcomers = [f"newcomer-{n}" for n in range(NEWCOMERS)]
        spread = timedelta(seconds=seconds) - LEAD - TAIL
        since = carillon.add_backlog(
            stage, "newcomer", NEWCOMERS, jobs_each=1, triggers_each=1, due_in=LEAD, spread=spread, priority=0
        )
        stage.pause(f"{tenants:,} tenants with {jobs * TRIGGERS:,} due each", seconds)
        until = stage.value("SELECT clock_timestamp()")
        lags = carillon.lags(stage, *newcomers, since=since, until=until)
        left = stage.value(_LEFT)
    turns = leader.turns()
    if not left:  # Turns after the backlog ran dry say nothing of the speed.
        turns = turns[: 1 + max(n for n, turn in enumerate(turns) if turn.dispatched > 1)]
    lengths = [turn.ms for turn in turns if turn.dispatched or not turn.led]
    return Course(
        tenants,
        tenants * jobs * TRIGGERS,
        rate(turns),
        cpu_rate(turns),
        sum(turn.dispatched for turn in turns),
        percentile(lengths, 0.5),
        max(lengths),
        failed(turns),
        lags,
    )

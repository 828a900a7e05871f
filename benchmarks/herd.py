"""Herd: thousands of schedules due at one instant; how long until all have been executed, in how much memory?

First Carillon runs beside RedBeat, django-celery-beat and APScheduler, with 1,000 and with 5,000 schedules. A peer has
a minute and is rated by the executions that it managed in it. Then Carillon runs alone, with herds up to a million,
which shows how time and memory grow. Every clock starts at the instant at which all of them are due. Carillon's stops
at the last success that Postgres recorded, a peer's at the last start that the peer stamped.

A herd is registered some seconds ahead, a large one before it enters the look-ahead, as schedules usually are.
"""

from dataclasses import dataclass
from datetime import timedelta

from benchmarks import carillon, herd_peers
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage

BESIDE_PEERS = (1_000, 5_000)
ALONE = (10_000, 100_000, 1_000_000)
#: Long enough to materialize a small herd.
LEAD, LEAD_EACH = timedelta(seconds=3), timedelta(microseconds=500)
#: Longer than the look-ahead, so that nothing is materialized while jobs are still being registered.
LONG_LEAD, LONG_FROM = timedelta(seconds=65), 20_000
REGISTERING = timedelta(seconds=3)
REGISTERING_EACH = timedelta(microseconds=200)
TRIGGERS_PER_SECOND_AT_LEAST = 500


@dataclass(frozen=True)
class Course:
    """The result of a herd of ``count``: ``done`` were executed in ``seconds``; the scheduler's peak memory in MiB."""

    count: int
    done: int
    seconds: float
    peak_mib: float

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    def row(self, name: str) -> Row:
        figures = f"{self.done:,}", f"{self.seconds:.2f}", f"{self.rate:,.0f}", f"{self.peak_mib:.0f}"
        return Row(f"{name}, {self.count:,} due", figures)

    def json(self) -> dict[str, float]:
        return {
            "done": self.done,
            "seconds": round(self.seconds, 2),
            "per_second": round(self.rate, 1),
            "peak_rss_mib": round(self.peak_mib, 1),
        }


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the herds and the peers' patience."""
    beside, alone = ([max(20, int(n * scale)) for n in sizes] for sizes in (BESIDE_PEERS, ALONE))
    patience = max(5.0, herd_peers.PATIENCE_SECONDS * min(1.0, scale))
    ours = {count: _ours(stage, count) for count in dict.fromkeys(beside + alone)}
    peers = {
        name: [Course(count, *run(stage, count, patience)) for count in beside]
        for name, run in herd_peers.PEERS.items()
    }
    judged = beside[-1]
    ratios = {name: ours[judged].rate / courses[-1].rate for name, courses in peers.items()}
    first = next(iter(peers))
    return Report(
        name="herd",
        title=f"Schedules due at one instant; a peer is given {patience:g} s",
        unit=f"executions per second, {judged:,} due",
        ours=ours[judged].rate,
        peer=peers[first][-1].rate,
        ratio=ratios[first],
        columns=("done", "seconds", "per second", "scheduler's peak MiB"),
        rows=tuple(
            [course.row("Carillon") for course in ours.values()]
            + [course.row(name) for name, courses in peers.items() for course in courses]
        ),
        more={
            "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
            "ours_by_count": {str(course.count): course.json() for course in ours.values()},
            "peers_by_count": {
                name: {str(course.count): course.json() for course in courses}
                for name, courses in peers.items()
            },
            "growth": _growth(ours[alone[0]], ours[alone[-1]]),
            "most_rss_mib": round(max(course.peak_mib for course in ours.values()), 1),
        },
    )


def _growth(least: Course, most: Course) -> float:
    """How many times longer a firing takes in the largest herd than in the smallest alone; 1 is linear growth."""
    return round(least.rate / most.rate, 2)


def _ours(stage: Stage, count: int) -> Course:
    with carillon.running(stage) as (beat, _):
        lead = LONG_LEAD if count >= LONG_FROM else LEAD + LEAD_EACH * count
        registering = REGISTERING + REGISTERING_EACH * count
        herd = carillon.add_one_time_jobs(stage, count, due_in=lead + registering)
        if herd.first_due_at - stage.value("SELECT clock_timestamp()") < lead:
            raise BenchError(f"registering {count:,} jobs took longer than {registering}")
        timeout = (lead + registering).total_seconds() + 60 + count / TRIGGERS_PER_SECOND_AT_LEAST
        seconds = carillon.drain(stage, herd, what=f"Carillon: a herd of {count:,}", timeout_seconds=timeout)
        return Course(count, count, seconds, beat.peak_rss_mib())

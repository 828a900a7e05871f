"""The same load on a ledger of any size: a leader's turns in calm, no-ops end to end, lag at a fixed rate."""

import json
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from benchmarks import carillon
from benchmarks.report import Row, percentile
from benchmarks.stage import Stage

ROUNDS, SMALL = 3, 0.2
TRIGGERS = 10_000
TICKS = 200
PER_SECOND = 200
FLEET_EVERY = timedelta(seconds=5)
FLEET_LEAD = timedelta(seconds=3)
WATCH_SECONDS = 15.0
COLUMNS = "turn p50 ms", "turn p99 ms", "triggers /s", "lag p50 ms", "lag p99 ms", "leader MiB"


@dataclass(frozen=True)
class Figures:
    """A leader's turn with nothing due (ms), triggers a second end to end, start lag at a fixed rate (ms)."""

    turn_p50: float
    turn_p99: float
    rate: float
    lag_p50: float
    lag_p99: float
    leader_mib: float

    def row(self, name: str) -> Row:
        figures = (
            f"{self.turn_p50:.2f}",
            f"{self.turn_p99:.2f}",
            f"{self.rate:,.0f}",
            f"{self.lag_p50:.1f}",
            f"{self.lag_p99:.1f}",
            f"{self.leader_mib:.0f}",
        )
        return Row(name, figures)

    def json(self) -> dict[str, float]:
        return {name: round(value, 2) for name, value in vars(self).items()}


def carry(stage: Stage, *, what: str, scale: float) -> Figures:
    """Run the load on the data that is stored; the tenant ``bench`` must be there."""
    turns = _turns(stage, what)
    rounds, count = (ROUNDS if scale >= SMALL else 1), int(TRIGGERS * scale)
    with carillon.running(stage, fresh=False) as (beat, _):
        rates = []
        for _ in range(rounds):
            batch = carillon.add_one_time_jobs(stage, count, due_in=timedelta())
            rates.append(count / carillon.drain(stage, batch, what=f"{what}: {count:,} triggers end to end"))
        lags = _lags(stage, what, scale)
        leader_mib = beat.peak_rss_mib()
        _retire_fleet(stage, what)
    return Figures(
        percentile(turns, 0.5),
        percentile(turns, 0.99),
        median(rates),
        percentile(lags, 0.5),
        percentile(lags, 0.99),
        leader_mib,
    )


def _turns(stage: Stage, what: str) -> list[float]:
    """Milliseconds of each of a leader's turns while nothing is due; a process of its own leads."""
    argv = ("-m", "benchmarks.carillon.turns", str(TICKS))
    with stage.actor("turns", argv, may_end=True) as leader:
        stage.must(f"{what}: {TICKS} turns of a leader in calm", leader.ended)
        turns: list[float] = json.loads(leader.log.read_text().splitlines()[-1])
        return turns


def _lags(stage: Stage, what: str, scale: float) -> list[float]:
    seconds = WATCH_SECONDS * min(1.0, scale) + FLEET_LEAD.total_seconds()
    jobs = int(PER_SECOND * FLEET_EVERY.total_seconds())
    first = carillon.add_fleet(stage, jobs, every=FLEET_EVERY, first_in=FLEET_LEAD)
    stage.pause(f"{what}: {PER_SECOND} firings a second", seconds)
    until = stage.value("SELECT clock_timestamp()")
    return carillon.lags(stage, carillon.TENANT, since=first, until=until)


def _retire_fleet(stage: Stage, what: str) -> None:
    """Stop the fleet, so that its firings do not disturb the next size. Triggers in flight may end as they will."""
    with stage.db.transaction():
        stage.db.execute(
            "UPDATE jobs_job SET status = 'completed', next_fire_at = NULL "
            "WHERE status = 'active' AND next_fire_at < clock_timestamp() + interval '1 hour'"
        )
        stage.db.execute(
            "UPDATE jobs_trigger SET state = 'cancelled', reason = 'job_cancelled', finished_at = clock_timestamp() "
            "WHERE phase = 'pending'"
        )
    stage.must(f"{what}: ending what runs", lambda: carillon.idle(stage), poll_seconds=carillon.POLL_SECONDS)

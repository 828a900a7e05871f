"""Idle lanes: the cost of a leader's turn beside 60,000 lanes whose triggers are not due yet.

15,000 tenants have one trigger in each of the four priorities, due in an hour; the peer is Carillon with four lanes.
First the bench measures turns with nothing due; then turns that dispatch ten triggers, which fall due together once a
second, each of another lane. The workers take no time, and the time of their statement is not counted.
"""

from dataclasses import dataclass
from datetime import timedelta

from psycopg import sql

from benchmarks import carillon
from benchmarks.carillon.leader import Turn, failed, leading
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import BenchError, Stage

TENANTS = 15_000
PRIORITIES = 4
FAR = timedelta(hours=1)
CALM_SECONDS, MIN_SECONDS = 15.0, 5.0
BURSTS, MIN_BURSTS, AT_ONCE = 20, 5, 10
#: After the first turns, which connect and prepare.
LEAD = timedelta(seconds=2)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Turns:
    """Milliseconds of the leader's turns beside ``lanes`` idle lanes: with nothing due, and with ten."""

    lanes: int
    idle: list[float]
    busy: list[float]
    failed: int

    def row(self) -> Row:
        spans = (f"{percentile(of, share):,.1f}" for of in (self.idle, self.busy) for share in (0.5, 0.99))
        return Row(f"{self.lanes:,} idle lanes", (*spans, f"{len(self.idle):,}", f"{self.failed}"))

    def json(self) -> dict[str, float]:
        return {
            "idle_p50_ms": round(percentile(self.idle, 0.5), 2),
            "idle_p99_ms": round(percentile(self.idle, 0.99), 2),
            "busy_p50_ms": round(percentile(self.busy, 0.5), 2),
            "busy_p99_ms": round(percentile(self.busy, 0.99), 2),
            "turns_failed": self.failed,
        }


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the lanes and the watch."""
    few, many = (_turns(stage, tenants, scale) for tenants in (1, max(2, int(TENANTS * scale))))
    return Report(
        name="idle_lanes",
        title=f"A leader's turn beside idle lanes, with nothing due and with {AT_ONCE} due",
        unit=f"ms of a turn with nothing due, p50, {many.lanes:,} idle lanes; peer: {few.lanes:,}",
        ours=percentile(many.idle, 0.5),
        peer=percentile(few.idle, 0.5),
        ratio=percentile(few.idle, 0.5) / percentile(many.idle, 0.5),
        columns=("idle p50 ms", "p99", f"{AT_ONCE} due p50 ms", "p99", "idle turns", "failed"),
        rows=(few.row(), many.row()),
        more={
            "busy_ratio": round(percentile(few.busy, 0.5) / percentile(many.busy, 0.5), 3),
            "by_lanes": {str(turns.lanes): turns.json() for turns in (few, many)},
        },
    )


def _turns(stage: Stage, tenants: int, scale: float) -> Turns:
    stage.empty()
    lane = {"jobs_each": PRIORITIES, "priority": sql.SQL("n / {}").format(tenants)}
    carillon.add_backlog(stage, "idle", tenants, triggers_each=1, due_in=FAR, news=False, **lane)
    stage.say(f"{tenants * PRIORITIES:,} lanes: analyzing")
    stage.settle()
    with leading(stage) as leader:
        stage.pause(
            f"{tenants * PRIORITIES:,} lanes, nothing due", max(MIN_SECONDS, CALM_SECONDS * min(1.0, scale))
        )
    idle = _settled(leader.turns())
    with leading(stage) as leader:
        bursts = max(MIN_BURSTS, int(BURSTS * min(1.0, scale)))
        carillon.add_bursts(stage, "burst", AT_ONCE, bursts=bursts, every=SECOND, due_in=LEAD)
        stage.pause(
            f"{tenants * PRIORITIES:,} lanes, {AT_ONCE} due a second",
            (LEAD + bursts * SECOND).total_seconds(),
        )
    turns = _settled(leader.turns())
    busy = [turn.ms for turn in turns if turn.dispatched]
    if not busy:
        raise BenchError("nothing that fell due was dispatched")
    return Turns(tenants * PRIORITIES, [turn.ms for turn in idle], busy, failed(idle) + failed(turns))


def _settled(turns: list[Turn]) -> list[Turn]:
    """Without the first second, in which a leader connects, opens queues and does its housekeeping."""
    began = turns[0].ended + SECOND.total_seconds() if turns else 0.0
    return [turn for turn in turns if turn.began >= began]

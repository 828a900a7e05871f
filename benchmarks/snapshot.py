"""Snapshot: the cost of a leader's turn after a million triggers were dispatched beside a reader's old snapshot.

The indexes must keep the entries of dispatched triggers while a session reads at an older time, as ``pg_dump`` does for
hours. Ten tenants have 100,000 triggers due each, and one more of each job in an hour. A leader whose workers take no
time dispatches all due triggers; then ten triggers fall due together once a second. A leader that runs out of time
shows its work until then, and no turn with nothing due. The peer is the same without the reader.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

from benchmarks import carillon
from benchmarks.carillon.leader import failed, leading, rate
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

TENANTS, JOBS, TRIGGERS = 10, 1_000, 100
MIN_JOBS = 20
BURSTS, AT_ONCE = 15, 10
SECOND, LEAD = timedelta(seconds=1), timedelta(seconds=3)
FAR = timedelta(hours=1)
#: Seconds that the leader has for each trigger; after that its work so far must do.
PATIENCE_EACH, MIN_PATIENCE = 0.001, 60.0
_LEFT = """
    SELECT EXISTS (SELECT 1 FROM jobs_trigger WHERE phase = 'pending' AND due_at < clock_timestamp())
"""


@dataclass(frozen=True)
class Course:
    """How fast the backlog went, and the turns (ms) after it: with nothing due, and with ten."""

    dispatched: int
    dry: bool
    rate: float
    last_rate: float
    idle: list[float]
    busy: list[float]
    failed: int

    def row(self, name: str) -> Row:
        figures = (
            f"{self.dispatched:,}",
            f"{self.rate:,.0f}",
            f"{self.last_rate:,.0f}",
            f"{percentile(self.idle, 0.5):,.1f}" if self.idle else "none",
            f"{percentile(self.busy, 0.5):,.1f}",
            f"{percentile(self.busy, 0.99):,.1f}",
            f"{self.failed}",
        )
        return Row(name, figures)

    def json(self) -> dict[str, float | None]:
        return {
            "dispatched": self.dispatched,
            "dry": self.dry,
            "per_second": round(self.rate, 1),
            "last_tenth_per_second": round(self.last_rate, 1),
            "idle_p50_ms": round(percentile(self.idle, 0.5), 2) if self.idle else None,
            "busy_p50_ms": round(percentile(self.busy, 0.5), 2),
            "busy_p99_ms": round(percentile(self.busy, 0.99), 2),
            "turns_failed": self.failed,
        }


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the backlog."""
    without, beside = (_course(stage, scale, old_snapshot=old) for old in (False, True))
    ours, peer = percentile(beside.busy, 0.5), percentile(without.busy, 0.5)
    return Report(
        name="snapshot",
        title="A leader's turn after it dispatched a backlog, without and beside a reader with an old snapshot",
        unit=f"ms of a turn with {AT_ONCE} due, p50, beside an old snapshot; peer: without",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        columns=("dispatched", "per s", "last tenth", "idle ms", f"{AT_ONCE} due ms", "p99", "failed"),
        rows=(without.row("without"), beside.row("old snapshot")),
        more={
            "without": without.json(),
            "with": beside.json(),
        },
    )


def _course(stage: Stage, scale: float, *, old_snapshot: bool) -> Course:
    jobs = max(MIN_JOBS, int(JOBS * scale))
    count = TENANTS * jobs * TRIGGERS
    stage.empty()
    carillon.add_backlog(stage, "crowd", TENANTS, jobs_each=jobs, triggers_each=TRIGGERS, news=False)
    carillon.add_bursts(stage, "later", TENANTS * jobs, bursts=1, every=SECOND, due_in=FAR)
    stage.say(f"{count:,} triggers: analyzing")
    stage.settle()
    what = f"{count:,} triggers " + ("beside an old snapshot" if old_snapshot else "without a reader")
    with _reader(stage) if old_snapshot else nullcontext(), leading(stage) as leader:
        patience = max(MIN_PATIENCE, PATIENCE_EACH * count)
        dry = stage.wait(what, lambda: not stage.value(_LEFT), timeout_seconds=patience, poll_seconds=1)
        drained_at = time.monotonic()
        carillon.add_bursts(stage, "burst", AT_ONCE, bursts=BURSTS, every=SECOND, due_in=LEAD)
        made_at = time.monotonic()
        stage.pause(f"{what}: {AT_ONCE} due a second", (LEAD + BURSTS * SECOND).total_seconds())
    turns = leader.turns()
    draining = [turn for turn in turns if turn.dispatched and turn.began < drained_at]
    after = [turn for turn in turns if turn.began > made_at]
    tenth = draining[-max(1, len(draining) // 10) :]
    return Course(
        sum(turn.dispatched for turn in draining),
        dry,
        rate(draining),
        rate(tenth),
        [turn.ms for turn in after if not turn.dispatched],
        [turn.ms for turn in after if turn.dispatched],
        failed(turns),
    )


@contextmanager
def _reader(stage: Stage) -> Iterator[None]:
    """A session that reads at the time at which the block began."""
    with closing(stage.connect()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM tenants_tenant")
        yield

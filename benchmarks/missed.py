"""Missed: one job that fires every second has 40,000 missed firings to decide; are others late meanwhile?

The job fires every second and runs the latest of its missed firings (``fire_once``) within a catch-up window of a day.
It could not fire for eleven hours: all these firings are pending, and come at once. Beside it twenty tenants fire a
hundred times a second in all. The peer is the same twenty in calm, just before.
"""

from datetime import datetime, timedelta

from psycopg import sql

from benchmarks import carillon, others
from benchmarks.carillon.leader import failed, leading
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

MISSED = 40_000
SECOND = timedelta(seconds=1)
CALM_SECONDS, WATCH_SECONDS, MIN_SECONDS = 10.0, 40.0, 5.0
POLL_SECONDS = 0.1
#: The job's grace is a minute: firings due later than this may not have been missed yet.
GRACE = timedelta(seconds=70)
JOB = {
    "interval": SECOND,
    "next_fire_at": sql.SQL("clock_timestamp()"),
    "misfire_policy": "fire_once",
    "catchup_window": timedelta(days=1),
    "overlap_policy": "skip",
    "max_concurrent": 1,
}
_LEFT = """
    SELECT count(*) FROM jobs_trigger
    WHERE tenant_id = %(tenant_id)s AND phase = 'pending' AND due_at < %(until)s
"""


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of missed firings and the watch."""
    missed = max(100, int(MISSED * scale))
    watch = max(MIN_SECONDS, WATCH_SECONDS * min(1.0, scale))
    stage.empty()
    with leading(stage) as leader:
        calm = others.add(stage, "calm", seconds=CALM_SECONDS)
        stage.pause("twenty tenants in calm", CALM_SECONDS + 2 * others.LEAD.total_seconds())
        before = calm.lags()
        beside = others.add(stage, "beside", seconds=watch)
        carillon.add_backlog(stage, "missed", 1, jobs_each=1, triggers_each=missed, apart=SECOND, **JOB)
        since = stage.value("SELECT clock_timestamp()")
        ended = stage.wait(
            f"{missed:,} missed firings are judged",
            lambda: _left(stage, since) == 0,
            timeout_seconds=watch,
            poll_seconds=POLL_SECONDS,
        )
        until = stage.value("SELECT clock_timestamp()")
        seconds, left = (until - since).total_seconds(), _left(stage, since)
        rest = (beside.until - until).total_seconds()
        stage.pause("twenty tenants beside it", max(0.0, rest))
        after = beside.lags()
    turns = leader.turns()
    fails = failed(turns)
    ours, peer = percentile(after, 0.99), percentile(before, 0.99)
    return Report(
        name="missed",
        title=f"Others' lag beside one job with {missed:,} missed firings; judged in {seconds:.1f} s",
        unit="ms, p99 of other tenants beside it; peer: in calm",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        columns=others.COLUMNS,
        rows=(
            Row("in calm", others.figures(before, 0)),
            Row(
                f"{missed:,} missed" + ("" if ended else f", {left:,} never judged"),
                others.figures(after, fails),
            ),
        ),
        more={
            "missed": missed,
            "judged": ended,
            "judged_seconds": round(seconds, 2),
            "left": left,
            "longest_turn_ms": round(max(turn.ms for turn in turns), 1),
            "calm": others.json(before, 0),
            "beside": others.json(after, fails),
        },
    )


def _left(stage: Stage, since: datetime) -> int:
    tenant_id = stage.value("SELECT id FROM tenants_tenant WHERE slug = 'missed-0'")
    return int(stage.value(_LEFT, tenant_id=tenant_id, until=since - GRACE))

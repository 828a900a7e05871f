"""Row lock: a session holds a lock on a running trigger whose lease ran out; are others late meanwhile?

A psql that was left open does this, or a handler that began a transaction and did not end it. The leader must reap the
trigger and cannot. Beside it twenty tenants fire a hundred times a second in all. The peer is the same twenty in calm,
just before. Once the lock is gone the leader must reap the trigger.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

from psycopg import sql

from benchmarks import carillon, others
from benchmarks.carillon.leader import failed, leading
from benchmarks.carillon.rows import grow
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage

CALM_SECONDS, HELD_SECONDS, MIN_SECONDS = 10.0, 30.0, 8.0
TAKEN_BACK_WITHIN_SECONDS = 60.0
#: The leader must not see the trigger before it is stuck.
FAR = timedelta(hours=1)
LEASE_LEFT = timedelta(seconds=1)
#: The trigger runs; its worker is gone.
_STICK = """
    UPDATE jobs_trigger SET state = 'running', fence = 1, attempt_count = 1, worker = 'celery@gone',
           scheduled_for = now(), due_at = now(), queued_at = now(), started_at = now(),
           lease_expires_at = clock_timestamp() + %(lease_left)s
    WHERE tenant_id = (SELECT id FROM tenants_tenant WHERE slug = 'stuck-0') RETURNING id
"""


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shortens how long the lock is held."""
    held = max(MIN_SECONDS, HELD_SECONDS * min(1.0, scale))
    stage.empty()
    with leading(stage) as leader:
        calm = others.add(stage, "calm", seconds=CALM_SECONDS)
        stage.pause("twenty tenants in calm", CALM_SECONDS + 2 * others.LEAD.total_seconds())
        before = calm.lags()
        with _stuck(stage) as trigger_id:
            beside = others.add(stage, "beside", seconds=held)
            stage.pause(f"a row lock is held for {held:g} s", held + others.LEAD.total_seconds())
            after = beside.lags()
            released_at = stage.value("SELECT clock_timestamp()")
        stage.must(
            "the trigger is taken back",
            lambda: not _runs(stage, trigger_id),
            timeout_seconds=TAKEN_BACK_WITHIN_SECONDS,
        )
        taken_back = (stage.value("SELECT clock_timestamp()") - released_at).total_seconds()
    fails = failed(leader.turns())
    ours, peer = percentile(after, 0.99), percentile(before, 0.99)
    return Report(
        name="row_lock",
        title=f"Others' lag while a running trigger whose lease ran out is locked for {held:g} s",
        unit="ms, p99 of other tenants while it is locked; peer: in calm",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        columns=others.COLUMNS,
        rows=(
            Row("in calm", others.figures(before, 0)),
            Row(f"locked; taken back {taken_back:.1f} s after", others.figures(after, fails)),
        ),
        more={
            "held_seconds": held,
            "taken_back_seconds": round(taken_back, 2),
            "calm": others.json(before, 0),
            "beside": others.json(after, fails),
        },
    )


@contextmanager
def _stuck(stage: Stage) -> Iterator[Any]:
    """A running trigger, soon without a lease, whose row is locked for the length of the block. Yields its id."""
    trigger_id = add_stuck(stage, lease_left=LEASE_LEFT)
    with closing(stage.connect()) as holder:
        holder.execute("SELECT FROM jobs_trigger WHERE id = %s FOR UPDATE", [trigger_id])
        yield trigger_id


def add_stuck(stage: Stage, *, lease_left: timedelta) -> Any:
    """Create a tenant with a running trigger and its attempt, whose worker is gone. Returns the trigger's id."""
    from jobs.models import Attempt

    carillon.add_backlog(stage, "stuck", 1, jobs_each=1, triggers_each=1, due_in=FAR)
    trigger_id = stage.value(_STICK, lease_left=lease_left)
    grow(
        stage,
        Attempt,
        1,
        what="making its attempt",
        source=sql.SQL("JOIN jobs_trigger t ON t.id = {}").format(trigger_id).as_string(stage.db),
        id=sql.SQL("uuidv7()"),
        trigger=sql.SQL("t.id"),
        job_id=sql.SQL("t.job_id"),
        tenant_id=sql.SQL("t.tenant_id"),
        number=1,
        fence=1,
        worker="celery@gone",
        state="started",
        started_at=sql.SQL("t.started_at"),
    )
    return trigger_id


def _runs(stage: Stage, trigger_id: Any) -> bool:
    return bool(
        stage.value(
            "SELECT state = 'running' FROM jobs_trigger WHERE id = %(trigger_id)s", trigger_id=trigger_id
        )
    )

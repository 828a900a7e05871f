"""The load, the kills and the judge of the tests of ``kill -9``.

Expected firings are computed from the API's acknowledged answers alone. Each run prints its seed; ``SEED`` repeats one,
and ``KILLS=5`` kills more.
"""

import os
import random
import time
from collections import Counter
from datetime import datetime, timedelta

import psutil

from stage.processes import kill_tree
from stage.waiting import wait_until
from tests.cluster.receiver import Arrival, Receiver
from tests.cluster.stage import Stage

JOBS = 60
KILLS = int(os.environ.get("KILLS", "3"))
#: A worker's lease, the reaper's turn and a generous margin on a small machine.
LEASE_SECONDS = 45


class Schedule:
    """The jobs that the API acknowledged: created_at and period of each."""

    def __init__(self, stage: Stage, receiver: Receiver) -> None:
        key = stage.create_tenant()
        self.periods: dict[str, tuple[datetime, timedelta]] = {}
        for number in range(JOBS):
            every = 2 + number % 9
            job = stage.call(
                "POST",
                "/jobs",
                key=key,
                body={
                    "name": f"job-{number}",
                    "job_type": "webhook",
                    "schedule": {"type": "interval", "every_seconds": every},
                    "payload": {"url": receiver.url},
                    "overlap_policy": "allow",
                    "max_concurrent": 100,
                    "misfire_policy": "fire_all",
                },
            )
            self.periods[job["id"]] = (datetime.fromisoformat(job["created_at"]), timedelta(seconds=every))

    def expected(self, *, until: float) -> set[tuple[str, datetime]]:
        """Every firing due by ``until`` (seconds since 1970), by arithmetic alone."""
        firings = set()
        for job_id, (created_at, every) in self.periods.items():
            count = int((until - created_at.timestamp()) // every.total_seconds())
            firings |= {(job_id, created_at + every * k) for k in range(1, count + 1)}
        return firings


def leader_pid(stage: Stage) -> int | None:
    rows = stage.query("SELECT holder FROM jobs_lease WHERE expires_at > clock_timestamp()")
    return int(rows[0][0].split(":")[1]) if rows else None


def kill_leaders(stage: Stage, rng: random.Random) -> None:
    for _ in range(KILLS):
        pid = wait_until(lambda: leader_pid(stage), timeout=15, what="a leader within 15 s")
        time.sleep(rng.uniform(1, 6))
        kill_tree(pid)
        wait_until(
            lambda dead=pid: leader_pid(stage) not in (None, dead), timeout=15, what="a successor within 15 s"
        )


def kill_beats(stage: Stage, rng: random.Random) -> None:
    for _ in range(KILLS):
        time.sleep(rng.uniform(1, 6))
        kill_tree(rng.choice(list(stage.pids("beat").values())))


def kill_workers(stage: Stage, rng: random.Random) -> None:
    for _ in range(KILLS):
        workers = wait_until(
            lambda: {n: p for n, p in stage.pids("worker").items() if psutil.pid_exists(p)},
            timeout=40,
            what="a living worker",
        )
        time.sleep(rng.uniform(2, 7))
        kill_tree(rng.choice(list(workers.values())))


def judge(
    schedule: Schedule, receiver: Receiver, stage: Stage, *, horizon: float
) -> tuple[list[Arrival], list[tuple[str, datetime]]]:
    """Wait until everything due by ``horizon`` was delivered. Returns the first deliveries and the doubled firings."""
    expected = schedule.expected(until=horizon)
    assert len(expected) > JOBS

    def missing() -> set[tuple[str, datetime]]:
        return expected - {delivery.firing for delivery in list(receiver.deliveries)}

    deadline = time.monotonic() + LEASE_SECONDS + 15
    while missing() and time.monotonic() < deadline:
        time.sleep(0.2)
    lost = missing()
    assert not lost, f"{len(lost)} of {len(expected)} firings lost, e.g. {sorted(lost)[:3]}"
    counts = Counter(delivery.firing for delivery in receiver.started)
    phantom = {firing for firing in counts if firing not in schedule.expected(until=time.time() + 1)}
    assert not phantom, f"fired what no schedule names: {sorted(phantom)[:3]}"
    early = [delivery for delivery in receiver.started if delivery.late_seconds < -0.05]
    assert not early, f"fired early: {early[:3]}"
    first = {}
    for delivery in receiver.started:
        first.setdefault(delivery.firing, delivery)
    return [first[f] for f in sorted(expected)], [firing for firing, count in counts.items() if count > 1]


def assert_doubled_within_lost(stage: Stage, receiver: Receiver, doubled: list[tuple[str, datetime]]) -> None:
    """A killed worker had claimed each doubled firing, and the firing's later execution carries a higher fence."""
    lost = stage.query(
        "SELECT t.job_id::text, t.scheduled_for FROM jobs_attempt a JOIN jobs_trigger t ON t.id = a.trigger_id "
        "WHERE a.state IN ('lost', 'stale')"
    )
    in_flight = {(job_id, scheduled_for) for job_id, scheduled_for in lost}
    assert set(doubled) <= in_flight
    for firing in doubled:
        fences = [delivery.fence for delivery in receiver.started if delivery.firing == firing]
        assert fences == sorted(set(fences)), f"a fence was used twice: {firing} {fences}"

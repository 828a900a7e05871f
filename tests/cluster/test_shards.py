"""Three beats over six shards: one is killed, another joins; judged from the ledger and by ``audit_firings``.

The look-ahead is a second, so that a shard nobody leads is felt at once, and not only a minute later.
"""

import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Self

import pytest

from jobs.store.leases import divide
from stage.processes import kill_tree
from stage.waiting import wait_until
from tests.cluster.crew import Crew
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster

SHARDS = 6
JOBS = 48
EVERY_SECONDS = 2
#: A killed beat's lease, a third of it until the others look, and their turn (DESIGN §2.5).
LATE_SECONDS = 15
ENVIRONMENT = {"CARILLON_BEAT_SHARDS": str(SHARDS), "CARILLON_LOOK_AHEAD_SECONDS": "1"}


class Beats(Crew):
    """Beats outside the stage's supervisor, which would start a killed one again; each leads some of the shards."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, beats=4, workers=0)

    def __enter__(self) -> Self:
        return self

    def shares(self) -> dict[int, set[int]]:
        """The numbers of the shards that each beat, by its pid, leads now."""
        found: dict[int, set[int]] = defaultdict(set)
        for name, holder in self._stage.query(
            "SELECT name, holder FROM jobs_lease "
            f"WHERE name LIKE 'leader/{SHARDS}/%' AND expires_at > clock_timestamp()"
        ):
            found[int(holder.split(":")[1])].add(int(name.split("/")[2]))
        return found

    def wait_for_shares(self, *sizes: int, timeout: float) -> None:
        wait_until(
            lambda: sorted(len(shards) for shards in self.shares().values()) == list(sizes),
            timeout=timeout,
            what=f"shares of {sizes}",
        )

    def stop(self) -> list[int]:
        """Stop those that live as an operator would; their exit codes."""
        living = [process for process in self._processes.values() if process.poll() is None]
        for process in living:
            process.send_signal(signal.SIGTERM)
        return [process.wait(timeout=20) for process in living]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(beats=0, workers=1, **ENVIRONMENT) as stage:
        yield stage


@pytest.fixture
def beats(stage: Stage) -> Iterator[Beats]:
    with Beats(stage) as beats:
        yield beats


def create_jobs(stage: Stage) -> None:
    key = stage.create_tenant()
    for number in range(JOBS):
        body = {
            "name": f"job-{number}",
            "job_type": "noop",
            "schedule": {"type": "interval", "every_seconds": EVERY_SECONDS},
            "payload": {},
            "overlap_policy": "allow",
            "max_concurrent": 100,
            "misfire_policy": "fire_all",
        }
        stage.call("POST", "/jobs", key=key, body=body)


def clock(stage: Stage) -> Any:
    return stage.query("SELECT clock_timestamp()")[0][0]


def jobs_of(stage: Stage, shards: set[int]) -> set[Any]:
    ranges = [shard for number, shard in enumerate(divide(SHARDS), start=1) if number in shards]
    rows = stage.query("SELECT id, partition_key FROM jobs_job")
    return {job_id for job_id, key in rows if any(shard.first <= key <= shard.last for shard in ranges)}


def fired_since(stage: Stage, moment: Any) -> dict[Any, Any]:
    """Of each job, when it first finished a firing scheduled after ``moment``."""
    rows = stage.query(
        "SELECT job_id, min(finished_at) FROM jobs_trigger "
        f"WHERE state = 'succeeded' AND scheduled_for > '{moment.isoformat()}' GROUP BY job_id"
    )
    return dict(rows)


def judge(stage: Stage, *, horizon: Any) -> float:
    """Every firing due by ``horizon`` was executed, once. Returns how late the latest began, in seconds."""
    due = f"FROM jobs_trigger WHERE scheduled_for <= '{horizon.isoformat()}'"
    wait_until(
        lambda: not stage.query(f"SELECT 1 {due} AND finished_at IS NULL LIMIT 1"),
        timeout=20,
        what="everything due to end",
    )
    ends = stage.query(f"SELECT DISTINCT state, reason, attempt_count {due}")
    assert ends == [("succeeded", "", 1)], ends
    print(stage.manage("audit_firings"))
    [(late, number)] = stage.query(
        f"SELECT extract(epoch FROM max(started_at - scheduled_for))::float, count(*) {due}"
    )
    print(f"{number} firings, at most {late:.1f} s late")
    return late


class TestShardedBeats:
    def test_take_over_a_killed_ones_shards_and_share_with_one_that_joins(
        self, stage: Stage, beats: Beats, rng: random.Random
    ) -> None:
        pids = [beats.start(name) for name in beats.beats[:3]]
        create_jobs(stage)
        beats.wait_for_shares(2, 2, 2, timeout=30)
        calm = clock(stage)
        wait_until(lambda: len(fired_since(stage, calm)) == JOBS, timeout=20, what="every job to fire")

        shares, victim = beats.shares(), rng.choice(pids)
        orphans = jobs_of(stage, shares[victim])
        assert orphans
        kill_tree(victim)
        killed_at = clock(stage)
        beats.wait_for_shares(3, 3, timeout=LATE_SECONDS)
        survivors = beats.shares()
        assert victim not in survivors
        assert all(shares[pid] < survivors[pid] for pid in survivors), "nobody loses what it had"
        fired = wait_until(
            lambda: orphans <= (found := fired_since(stage, killed_at)).keys() and found,
            timeout=LATE_SECONDS,
            what="the dead beat's jobs to fire again",
        )
        idle = max((fired[job_id] - killed_at).total_seconds() for job_id in orphans)
        print(f"{len(orphans)} jobs of {len(shares[victim])} shards fired again within {idle:.1f} s")
        assert idle <= LATE_SECONDS

        joined_at, joined = clock(stage), beats.start(beats.beats[3])
        beats.wait_for_shares(2, 2, 2, timeout=30)
        shares = beats.shares()
        assert joined in shares
        assert all(shares[pid] < survivors[pid] for pid in survivors), "nothing moves that need not"
        shared_at = clock(stage)
        print(f"shares even {(shared_at - joined_at).total_seconds():.1f} s after the start of another")
        wait_until(
            lambda: len(fired_since(stage, shared_at)) == JOBS, timeout=20, what="every job to fire again"
        )
        assert judge(stage, horizon=clock(stage)) <= LATE_SECONDS
        assert beats.stop() == [0, 0, 0]
        assert beats.shares() == {}

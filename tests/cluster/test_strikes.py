"""Under full load beats and workers are restarted, frozen and killed, Redis is emptied and killed, Postgres is crashed.

The judges are the ledger, the handlers' own list, and a witness in the database that notes each write that was not its
writer's to make. In CI each strike falls once, with leases of seconds. In full (docs/chaos.md):

``STRIKES``         which of restart, freeze, kill, flushall, redis, postgres, comma-separated, in this order
``STRIKE_ROUNDS``   how often all of them; 0: until the flood has drained
``STRIKE_FULL``     the leases of a deployment; freezes of 25 s (leader) and 60 s (worker); 30 s between two kills
``FLOOD``           how many distinct triggers are due at once beside the schedules
"""

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from stage.waiting import wait_until
from tests.cluster import ledger, witness
from tests.cluster.conftest import Servers
from tests.cluster.crew import Crew
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
STRIKES = (os.environ.get("STRIKES") or "restart,freeze,flushall,redis,postgres").split(",")
ROUNDS = int(os.environ.get("STRIKE_ROUNDS") or 1)
FULL = bool(os.environ.get("STRIKE_FULL"))
FLOOD = int(os.environ.get("FLOOD") or 300)
#: Longer than Postgres leaves an idle transaction, so that a frozen one is over when its process wakes.
LEADER_FROZEN, WORKER_FROZEN = (25.0, 60.0) if FULL else (7.0, 7.0)
KILL_EVERY = 30.0 if FULL else 0.0
WORKERS = 4 if FULL else 2
#: Set it to 0 to see firings wait for Redis instead.
BROKERLESS = os.environ.get("CARILLON_BROKERLESS_FALLBACK") or "1"
#: The tests' Postgres answers a commit before it has written it, so a crash would take back acknowledged commits.
DURABLE = """
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$
"""
#: Serving again after Postgres is up (faults.md, 5).
SERVING_WITHIN = 10.0
WITHIN = 900.0 if FULL or FLOOD > 1000 else 90.0
SHORT = {
    "CARILLON_LEADER_LEASE_SECONDS": "4",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_DISPATCH_DEADLINE_SECONDS": "3",
}


@pytest.fixture
def stage(servers: Servers) -> Iterator[Stage]:
    environment = {"CARILLON_HANDLER_MODULES": "tests.cluster.recording"} | ({} if FULL else SHORT)
    environment["CARILLON_BROKERLESS_FALLBACK"] = BROKERLESS
    with Stage(beats=0, workers=0, **servers.urls(), **environment) as stage:
        yield stage


class Striker:
    """Strikes a running crew; each method is one strike, and returns when it is over."""

    def __init__(self, stage: Stage, crew: Crew, servers: Servers, rng: random.Random) -> None:
        self._stage, self._crew, self._servers, self._rng = stage, crew, servers, rng
        self.told: list[str] = []

    def freeze(self) -> None:
        """A worker is frozen, and while it is frozen the leader, too; each at a random moment."""
        worker, leader = self._rng.choice(self._crew.workers), self._wait_for_leader()
        time.sleep(self._rng.uniform(0, 2))
        self._crew.freeze(worker)
        worker_thaws_at = time.monotonic() + WORKER_FROZEN
        time.sleep(self._rng.uniform(0, max(0.5, WORKER_FROZEN - LEADER_FROZEN - 10)))
        self._crew.freeze(leader)
        time.sleep(LEADER_FROZEN)
        wait_until(
            lambda: self._crew.leader() not in (None, leader), timeout=60, what="another to take the lease"
        )
        self._crew.thaw(leader)
        time.sleep(max(0.0, worker_thaws_at - time.monotonic()))
        self._crew.thaw(worker)
        self.told.append(f"froze {leader} and {worker}")
        self._wait_for_end()

    def restart(self) -> None:
        """A rolling deployment: one after the other, of those that remain. Nothing is lost, nothing done twice."""
        lost = "SELECT count(*) FROM jobs_attempt WHERE state IN ('lost', 'stale')"
        before = self._stage.query(lost)
        names = (*self._crew.beats, *self._crew.workers) if FULL else (self._wait_for_leader(), "worker1")
        for name in names:
            self._crew.restart(name)
            if FULL and name in self._crew.workers:
                there = f"SELECT 1 FROM jobs_worker WHERE name LIKE '{name}@%'"
                wait_until(
                    lambda there=there: self._stage.query(there), timeout=60, what=f"{name} to be back"
                )
        self._wait_for_end()
        assert self._stage.query(lost) == before
        self.told.append(f"restarted {len(names)}")

    def kill(self) -> None:
        time.sleep(KILL_EVERY or self._rng.uniform(0, 1))
        worker = self._rng.choice(self._crew.workers)
        self._crew.kill(worker)
        self.told.append(f"killed {worker}")

    def flushall(self) -> None:
        time.sleep(self._rng.uniform(0, 1))
        with redis.Redis.from_url(self._stage.environment["REDIS_URL"]) as client:
            client.flushall()
        self.told.append("FLUSHALL")
        self._wait_for_end()

    def redis(self) -> None:
        """``kill -9``: firings go on without Redis, and with it when it is back, empty."""
        time.sleep(self._rng.uniform(0, 1))
        self._servers.redis.running().kill()
        if BROKERLESS == "1":
            self._wait_for_end(without_broker=True)
        self._servers.redis.stop()
        self._servers.redis.start()
        self._wait_for_end()
        self.told.append("killed Redis")

    def postgres(self) -> None:
        """As ``pg_ctl restart -m immediate`` does."""
        time.sleep(self._rng.uniform(0, 1))
        process = self._servers.postgres.running()
        process.send_signal(3)
        wait_until(lambda: self._servers.postgres.running() is None, timeout=30, what="Postgres to be gone")
        self._servers.postgres.stop()
        self._servers.postgres.start()
        up_at = time.monotonic()
        self._wait_for_end()
        seconds = time.monotonic() - up_at
        self.told.append(f"crashed Postgres, serving {seconds:.1f} s after it was up")
        assert seconds <= SERVING_WITHIN, self.told[-1]

    def _wait_for_leader(self) -> str:
        return wait_until(self._crew.leader, timeout=30, what="a leader")

    def _wait_for_end(self, *, without_broker: bool = False) -> None:
        """A firing that was started from now on, with or without the broker, has ended."""
        [(now,)] = self._stage.query("SELECT clock_timestamp()")
        ended = (
            f"SELECT 1 FROM jobs_attempt WHERE started_at > '{now}' AND state = 'succeeded' "
            f"AND celery_task_id {'=' if without_broker else '<>'} '' LIMIT 1"
        )
        wait_until(lambda: self._stage.query(ended), timeout=120, what="firings to go on")


def rounds(stage: Stage, flood: str) -> Iterator[str]:
    """The strikes, one after the other."""
    number = 0
    left = f"SELECT 1 FROM jobs_trigger WHERE job_id = '{flood}' AND state <> 'succeeded' LIMIT 1"
    while number < ROUNDS or (ROUNDS == 0 and stage.query(left)):
        number += 1
        yield from STRIKES


class TestFullLoad:
    def test_keeps_every_promise_through_every_strike(
        self, stage: Stage, servers: Servers, rng: random.Random
    ) -> None:
        stage.execute(DURABLE)
        stage.execute(ledger.TABLES)
        witness.install(stage)
        key = ledger.create_tenant(stage)
        with Crew(stage, beats=2, workers=WORKERS) as crew:
            striker = Striker(stage, crew, servers, rng)
            periods = ledger.create_jobs(stage, key, holds_seconds=0.05)
            flood = ledger.create_flood(stage, key, FLOOD, holds_seconds=0.05)
            wait_until(
                lambda: stage.query("SELECT 1 FROM jobs_trigger WHERE state = 'succeeded' LIMIT 1"),
                timeout=60,
                what="the load to flow",
            )
            since = time.monotonic()
            strikes: dict[str, Callable[[], None]] = {name: getattr(striker, name) for name in set(STRIKES)}
            for name in rounds(stage, flood):
                strikes[name]()
                print(f"{time.monotonic() - since:.0f} s {striker.told[-1]}")
            print(f"{ledger.judge_flood(stage, flood, within=WITHIN)} of the flood")
            print(f"{ledger.judge(stage, periods, within=WITHIN)} of schedules")
            seconds = time.monotonic() - since
            print(witness.assert_nobody_wrote_what_was_not_theirs(stage))
            print(f"{len(striker.told)} strikes, {seconds:.0f} s")
            if FULL:
                print(stage.manage("audit_firings"))
            assert not crew.ended()

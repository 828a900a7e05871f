"""A leader is frozen, killed, then loses Postgres, each time with a backlog half materialized by its second thread.

Each firing of the backlog becomes one trigger and is executed once, and the witness finds no write of a leader that had
been deposed, on any of its connections.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from stage.waiting import wait_until
from tests.cluster import ledger, witness
from tests.cluster.conftest import Servers
from tests.cluster.crew import Crew
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
CROWD = 1500
#: Passes so small that a backlog takes many.
ENVIRONMENT = {
    "CARILLON_MATERIALIZE_BATCH": "5",
    "CARILLON_LOOK_AHEAD_SECONDS": "1",
    "CARILLON_LEADER_LEASE_SECONDS": "4",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_DISPATCH_DEADLINE_SECONDS": "3",
}
#: Longer than the lease, and than Postgres leaves an idle transaction.
FROZEN_SECONDS = 7.0
#: Copies of the one job, all due now and in an hour again.
GATHER = """
INSERT INTO jobs_job SELECT (jsonb_populate_record(j, jsonb_build_object(
    'id', gen_random_uuid(), 'name', '{name}-' || n, 'created_at', now() - interval '1 hour',
    'next_fire_at', now()))).*
FROM jobs_job j, generate_series(1, {number}) n WHERE j.name = 'first'
"""
#: For each job of a backlog: its triggers, and those that succeeded.
FIRED = """
SELECT count(t.id), count(t.id) FILTER (WHERE t.state = 'succeeded')
FROM jobs_job j LEFT JOIN jobs_trigger t ON t.job_id = j.id WHERE j.name LIKE '{name}-%' GROUP BY j.id
"""


@pytest.fixture
def stage(servers: Servers) -> Iterator[Stage]:
    with Stage(beats=0, workers=0, **servers.urls(), **ENVIRONMENT) as stage:
        yield stage


class TestCrowd:
    def test_fires_once_each_whatever_becomes_of_the_leader_meanwhile(
        self, stage: Stage, servers: Servers
    ) -> None:
        witness.install(stage)
        key = ledger.create_tenant(stage)
        body = {"name": "first", "job_type": "noop", "schedule": {"type": "interval", "every_seconds": 3600}}
        stage.call("POST", "/jobs", key=key, body=body)
        with Crew(stage, beats=2, workers=1) as crew:

            def frozen(leader: str) -> None:
                crew.freeze(leader)
                time.sleep(FROZEN_SECONDS)
                crew.thaw(leader)

            def cut_off(_: str) -> None:
                servers.postgres.running().send_signal(3)
                wait_until(lambda: servers.postgres.running() is None, timeout=30, what="Postgres to be gone")
                servers.postgres.stop()
                servers.postgres.start()

            for strike in (frozen, crew.kill, cut_off):
                self.strike_amid_a_crowd(stage, crew, strike)
            print(witness.assert_nobody_wrote_what_was_not_theirs(stage))
            assert not crew.ended()

    def strike_amid_a_crowd(self, stage: Stage, crew: Crew, strike: Callable[[str], None]) -> None:
        name = strike.__name__
        leader = wait_until(crew.leader, timeout=30, what="a leader")
        stage.execute(GATHER.format(name=name, number=CROWD))
        wait_until(lambda: self.made(stage, name) > CROWD // 10, timeout=30, what="the crowd to be under way")
        made = self.made(stage, name)
        strike(leader)
        assert made < CROWD, "the strike came too late"
        wait_until(
            lambda: all(row == (1, 1) for row in stage.query(FIRED.format(name=name))),
            timeout=60,
            what=f"each of the crowd to have fired once ({name})",
        )

    @staticmethod
    def made(stage: Stage, name: str) -> int:
        return sum(row[0] for row in stage.query(FIRED.format(name=name)))

"""PgBouncer before Postgres, by session and by transaction: judged as without it; no client finds another's session.

Beats and commands go past it (``DATABASE_DIRECT_URL``), web processes and workers through it.
"""

import os
import random
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from stage.pgbouncer import MISSING, PROGRAM, Mode, PgBouncer
from stage.waiting import wait_until
from tests.cluster.kills import JOBS, Schedule, assert_doubled_within_lost, judge, kill_workers
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(PROGRAM is None, reason=MISSING)]
SIZE = 6
#: All that a session could be left with: parameters that are not the server's or the client's own, and statements.
LEFT = """
    SELECT name, setting FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name', 'TimeZone')
    UNION ALL SELECT name, statement FROM pg_prepared_statements
    UNION ALL SELECT 'timezone', setting FROM pg_settings WHERE name = 'TimeZone' AND setting <> reset_val
    UNION ALL SELECT 'advisory lock', objid::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
"""


@pytest.fixture(params=["session", "transaction"])
def pooler(request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    mode: Mode = request.param
    # By session each client keeps a server connection; by transaction a handful serves all.
    with PgBouncer(os.environ["DATABASE_URL"], mode=mode, size=60 if mode == "session" else SIZE) as pooler:
        yield pooler


def left_behind(pooler: PgBouncer, database: str) -> list[tuple[str, str]]:
    """The remains that clients find when they come to every server connection in turn."""
    found = []
    with psycopg.connect(pooler.conninfo(database), autocommit=True, connect_timeout=10) as client:
        for _ in range(4 * SIZE):
            found += client.execute(LEFT, prepare=False).fetchall()
    return found


def test_every_firing_is_delivered_once_through_the_death_of_workers(
    pooler: PgBouncer, slow_receiver: Receiver, rng: random.Random
) -> None:
    with Stage(beats=1, workers=2, pooler=pooler) as stage:
        database = str(conninfo_to_dict(stage.database_url)["dbname"])
        schedule = Schedule(stage, slow_receiver)
        wait_until(lambda: len(slow_receiver.deliveries) > JOBS, timeout=30, what="the load to flow")
        before = left_behind(pooler, database)
        kill_workers(stage, rng)
        deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=time.time())
        assert_doubled_within_lost(stage, slow_receiver, doubled)
        assert before + left_behind(pooler, database) == []
        if pooler.mode == "transaction":
            [(through,)] = stage.query(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND client_addr IS NULL AND pid <> pg_backend_pid() AND application_name = 'carillon'"
            )
            print(f"{through} connections of Postgres")
        print(f"{pooler.mode}: {len(deliveries)} firings, {len(doubled)} doubled")
        print(stage.manage("audit_firings"))
        log = stage.log_path.read_text()
        assert "prepared statement" not in log
        assert "Traceback" not in log
    assert stage.exit_status == 0

"""Sessions with Postgres: every wait is bounded, through any pooler. An undeclared pooler by transaction is refused."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
from django.db import connection

from scheduler_project.sessions import SharedSessions, go_past_pooler
from tests.cluster.stage import own_database_url
from tests.interfaces.pooler import Pooler

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
ASK = """
import django; django.setup()
from django.db import connection
from jobs.api.views.health import database_answers
from scheduler_project.sessions import go_through_pooler
go_through_pooler()
assert database_answers()
with connection.cursor() as cursor:
    cursor.execute(
        "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
        "current_setting('idle_in_transaction_session_timeout'), current_setting('TimeZone')"
    )
    print(*cursor.fetchone())
"""
#: The work of a worker, in steps that each begin with a mark.
WORK = """
import django; django.setup()
from datetime import timedelta
from uuid import uuid4
from django.db import connection, connections, transaction
from jobs.store import db
from scheduler_project.sessions import go_through_pooler
go_through_pooler()
db.keep_plans()
connections.close_all()

def mark(name):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 'mark {name}'")

def ask(statement, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()

mark("statement")
assert ask("SELECT %s::int", [7]) == (7,)
mark("transaction")
with transaction.atomic():
    assert ask("SELECT 1") == (1,)
    with transaction.atomic():
        assert ask("SHOW lock_timeout") == ("10s",)
mark("kept")
for _ in range(4):
    db.queries("execution")["renew"](ids=[uuid4()], fences=[1], lease=timedelta(seconds=1))
mark("bound")
db.bound(statements=timedelta(seconds=1))
assert ask("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')") == ("1s", "50ms")
mark("many")
with connection.cursor() as cursor:
    cursor.executemany("SELECT set_config('statement_timeout', %s, true)", [["3s"], ["4s"]])
mark("end")
"""
#: Traces that a session may leave for its next owner to find.
LEFT = """
SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name'
UNION ALL SELECT name, statement FROM pg_prepared_statements
"""


class Through(Protocol):
    def __call__(
        self, *command: str, by_transaction: bool, **environment: str
    ) -> tuple["subprocess.CompletedProcess[str]", Pooler]: ...


@pytest.fixture
def through() -> Iterator[Through]:
    """Run a program whose database is behind a pooler, to its end."""
    known = connection.get_connection_params()
    postgres = Path(known["host"]) / f".s.PGSQL.{known.get('port') or 5432}"
    if not postgres.is_socket():
        pytest.skip("the pooler of the tests reaches Postgres by its socket alone")
    opened: list[Pooler] = []

    def run(*command: str, by_transaction: bool, **more: str) -> Any:
        pooler = Pooler(postgres, by_transaction=by_transaction)
        opened.append(pooler)
        url = f"postgresql://{known['user']}@127.0.0.1:{pooler.port}/{known['dbname']}"
        environment = os.environ | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
        }
        environment |= {
            name: value.format(url=url, direct=own_database_url()) for name, value in more.items()
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
        return done, pooler

    yield run
    for pooler in opened:
        pooler.close()


class TestSessions:
    def test_bound_every_wait(self) -> None:
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
                "current_setting('idle_in_transaction_session_timeout')"
            )
            assert cursor.fetchone() == ("30s", "10s", "1min")

    def test_leave_alone_what_the_url_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connection.close()
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c statement_timeout=7s")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')")
                assert cursor.fetchone() == ("7s", "10s")
        finally:
            connection.close()

    def test_with_postgres_itself_are_nobody_elses(self) -> None:
        go_past_pooler()


BEAT = ("-m", "celery", "-A", "scheduler_project", "beat", "-S", "jobs.engine.beat:LeaderScheduler")
WORKER = ("-m", "celery", "-A", "scheduler_project", "worker", "-P", "solo", "-n", "pooled@%h")
WEB = ("-m", "gunicorn", "scheduler_project.wsgi:application", "--bind", "127.0.0.1:0")
BY_SESSION = {"CARILLON_POOLER": "session", "DATABASE_DIRECT_URL": "{direct}"}
BY_TRANSACTION = {"CARILLON_POOLER": "transaction", "DATABASE_DIRECT_URL": "{direct}"}


def steps(pooler: Pooler) -> dict[str, list[bytes]]:
    """The messages that ``WORK`` sent in each of its steps, one a round trip."""
    name = "connect"

    def step(asked: bytes) -> str:
        nonlocal name
        if b"'mark " in asked:
            name = asked.partition(b"'mark ")[2].partition(b"'")[0].decode()
        return name

    return {name: list(asked) for name, asked in groupby(pooler.asked, key=step)}


class TestAPooler:
    @pytest.mark.parametrize(
        ("by_transaction", "told"), [(False, {}), (False, BY_SESSION), (True, BY_TRANSACTION)]
    )
    def test_keeps_waits_bounded(self, through: Through, by_transaction: bool, told: dict[str, str]) -> None:
        done, _ = through("-c", ASK, by_transaction=by_transaction, **told)
        assert (done.returncode, done.stdout.split()) == (0, ["30s", "10s", "1min", "UTC"]), done.stderr

    @pytest.mark.parametrize("command", [WORKER, BEAT, WEB], ids=["worker", "beat", "web"])
    def test_by_transaction_is_refused_where_no_setting_tells_of_it(
        self, through: Through, command: tuple[str, ...]
    ) -> None:
        done, _ = through(*command, by_transaction=True)
        assert done.returncode != 0
        assert SharedSessions.TEXT in done.stdout + done.stderr

    def test_by_transaction_is_refused_where_it_was_to_be_by_session(self, through: Through) -> None:
        done, _ = through(*WORKER, by_transaction=True, **BY_SESSION)
        assert done.returncode != 0
        assert SharedSessions.TEXT in done.stdout + done.stderr

    def test_by_transaction_is_refused_as_the_direct_way(self, through: Through) -> None:
        done, _ = through(
            *BEAT, by_transaction=True, CARILLON_POOLER="transaction", DATABASE_DIRECT_URL="{url}"
        )
        assert done.returncode != 0
        assert SharedSessions.DIRECT in done.stdout + done.stderr


class TestARoundTrip:
    @pytest.mark.parametrize("told", [{}, BY_SESSION], ids=["none", "session"])
    def test_is_what_it_was_where_sessions_are_ours(self, through: Through, told: dict[str, str]) -> None:
        done, pooler = through("-c", WORK, by_transaction=False, **told)
        assert done.returncode == 0, done.stderr
        asked = steps(pooler)
        assert {name: len(of) - 1 for name, of in asked.items() if name != "connect"} == {
            "statement": 1,
            "transaction": 6,  # BEGIN, two statements, a savepoint and its release, COMMIT
            "kept": 5,  # four, and one that prepares
            "bound": 2,
            "many": 1,  # a pipeline
            "end": 0,
        }
        assert asked["statement"][1] == b"Q\0\0\0\x12SELECT 7::int\0"
        assert sum(b"_pg3_" in one for one in asked["kept"]) == 3
        assert not any(b"SET LOCAL" in one for one in pooler.asked)

    def test_is_not_added_by_a_pooler_by_transaction(self, through: Through) -> None:
        done, pooler = through("-c", WORK, by_transaction=True, **BY_TRANSACTION)
        assert done.returncode == 0, done.stderr
        asked = steps(pooler)
        assert {name: len(of) - 1 for name, of in asked.items() if name != "connect"} == {
            "statement": 1,
            "transaction": 6,
            "kept": 4,
            "bound": 1,
            "many": 4,  # in a transaction of its own
            "end": 0,
        }
        for step in ("statement", "kept", "bound"):
            assert all(one.count(b"SET LOCAL statement_timeout") == 1 for one in asked[step]), step
        assert sum(b"SET LOCAL" in one for one in asked["transaction"][1:]) == 1
        assert not any(b"_pg3_" in one for one in pooler.asked)

    def test_leaves_nothing_to_the_next_client_of_a_pooler_by_transaction(self, through: Through) -> None:
        done, pooler = through("-c", WORK, by_transaction=True, **BY_TRANSACTION)
        assert done.returncode == 0, done.stderr
        known = connection.get_connection_params()
        client = psycopg.connect(
            host="127.0.0.1", port=pooler.port, user=known["user"], dbname=known["dbname"], autocommit=True
        )
        assert client.execute(LEFT).fetchall() == []
        client.close()

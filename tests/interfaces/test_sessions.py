"""Sessions with Postgres: every wait is bounded, through a pooler too; and a pooler by transaction is refused."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection

from scheduler_project.sessions import SharedSessions, refuse_shared_sessions
from tests.interfaces.pooler import Pooler

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
ASK = """
import django; django.setup()
from django.db import connection
from jobs.api.views.health import database_answers
from scheduler_project.sessions import refuse_shared_sessions
refuse_shared_sessions()
assert database_answers()
with connection.cursor() as cursor:
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SHOW {name}")
        print(*cursor.fetchone())
"""


@pytest.fixture
def through(request: pytest.FixtureRequest) -> Iterator[Callable[..., "subprocess.CompletedProcess[str]"]]:
    """Run a program whose database is behind a pooler."""
    known = connection.get_connection_params()
    postgres = Path(known["host"]) / f".s.PGSQL.{known.get('port') or 5432}"
    if not postgres.is_socket():
        pytest.skip("the pooler of the tests reaches Postgres by its socket alone")
    opened: list[Pooler] = []

    def run(*command: str, by_transaction: bool) -> "subprocess.CompletedProcess[str]":
        opened.append(Pooler(postgres, by_transaction=by_transaction))
        url = f"postgresql://{known['user']}@127.0.0.1:{opened[-1].port}/{known['dbname']}"
        environment = os.environ | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
        }
        return subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )

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
        refuse_shared_sessions()


class TestAPooler:
    def test_by_session_keeps_waits_bounded(
        self, through: Callable[..., "subprocess.CompletedProcess[str]"]
    ) -> None:
        done = through("-c", ASK, by_transaction=False)
        assert (done.returncode, done.stdout.split()) == (0, ["30s", "10s", "1min"]), done.stderr

    @pytest.mark.parametrize(
        "command",
        [
            ("-m", "celery", "-A", "scheduler_project", "worker", "-P", "solo", "-n", "pooled@%h"),
            ("-m", "celery", "-A", "scheduler_project", "beat", "-S", "jobs.engine.beat:LeaderScheduler"),
            ("-m", "gunicorn", "scheduler_project.wsgi:application", "--bind", "127.0.0.1:0"),
        ],
        ids=["worker", "beat", "web"],
    )
    def test_by_transaction_is_refused_at_the_start(
        self, through: Callable[..., "subprocess.CompletedProcess[str]"], command: tuple[str, ...]
    ) -> None:
        done = through(*command, by_transaction=True)
        assert done.returncode != 0
        assert SharedSessions.TEXT in done.stdout + done.stderr

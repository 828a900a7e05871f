"""A whole Carillon for one test: ``manage.py up`` as a real process tree on a database of its own."""

import atexit
import io
import json
import os
import signal
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections
from psycopg import sql

from scheduler_project.embedded import paths
from stage.pgbouncer import PgBouncer
from stage.processes import run_python, start_python
from stage.rabbitmq import RabbitMQ
from stage.urls import as_url
from stage.waiting import wait_until
from tests import abreast
from tests.stack import EMPTY_COPY, OWN, STAGE_REDIS_URL


class Stage:
    """``with Stage(beats=2, workers=2) as stage:`` — everything is stopped, and its database dropped, at the end."""

    def __init__(
        self,
        *,
        beats: int,
        workers: int,
        database_url: str | None = None,
        redis_url: str | None = None,
        rabbitmq_url: str | None = None,
        embedded: bool = False,
        pooler: PgBouncer | None = None,
        **environment: str,
    ) -> None:
        """``rabbitmq_url``: the broker's; then there is no Redis at all.

        ``embedded``: the stage has servers of its own, which ``up`` starts and stops; ``pids("postgres")`` tells them,
        too. ``pooler``: it stands in front of the database, and processes are told of it.
        """
        self._beats, self._workers, self._embedded = beats, workers, embedded
        self._admin_url = database_url or os.environ["DATABASE_URL"]
        self._session: psycopg.Connection[Any] | None = None
        self._name = f"cluster_{uuid4().hex[:12]}"
        self._directory = tempfile.TemporaryDirectory(prefix="carillon-cluster-")
        self.data_dir = Path(self._directory.name)
        self.log_path = self.data_dir / "up.log"
        self.environment = {
            **os.environ,
            "DATABASE_URL": psycopg.conninfo.make_conninfo(self._admin_url, dbname=self._name),
            "REDIS_URL": redis_url or STAGE_REDIS_URL,
            "CARILLON_DATA_DIR": str(self.data_dir),
            "CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
            "WEB_CONCURRENCY": "1",
            # Beside the tests that compute, not behind them.
            "CARILLON_POOL_NICENESS": str(abreast.NICENESS),
            **environment,
        }
        rabbitmq_url = rabbitmq_url or _rabbitmq_of_all()
        if rabbitmq_url and not (embedded or redis_url or "BROKER_URL" in environment):
            self.environment["BROKER_URL"] = rabbitmq_url
            del self.environment["REDIS_URL"]
        self.environment["DATABASE_URL"] = self.database_url = as_url(self.environment["DATABASE_URL"])
        if pooler:
            self.environment |= pooler.environment(self._name)
        if embedded:
            del self.environment["DATABASE_URL"], self.environment["REDIS_URL"]
            self.database_url = paths.embedded_database_url(self.data_dir)

    def __enter__(self) -> "Stage":
        if not self._embedded:
            _create_database(self._admin_url, self._name)
        options = ["--port", "0", "--no-flower", "--concurrency", "2"]
        scale = ["--beats", str(self._beats), "--workers", str(self._workers)]
        argv = ["manage.py", "up", *options, *scale]
        self.process = start_python(argv, environment=self.environment, log=self.log_path)
        try:
            wait_until(
                self._ready, timeout=180, what="up to answer /readyz, and all workers to take messages"
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._session:
            self._session.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.exit_status = self.process.wait(timeout=60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            if not self._embedded:
                with psycopg.connect(self._admin_url, autocommit=True) as connection:
                    connection.execute(
                        sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._name))
                    )
            self._directory.cleanup()

    def create_tenant(self, slug: str = "acme", *options: str) -> str:
        """The API key of a new tenant."""
        made = self.manage("create_tenant", slug, "--api-key", "test", "--json", *options)
        return str(json.loads(made)["api_key"])

    def readiness(self) -> str:
        """``status`` of /readyz: ok, degraded (broker away) or unavailable (database away)."""
        return str(self.report()["status"])

    def report(self) -> Any:
        """The whole answer of /readyz."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=20) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log_path.read_text()[-4000:]
        state = self.data_dir / "run" / "processes.json"
        if not state.exists():
            return False
        told = json.loads(state.read_text())
        if len(told["processes"]) < 1 + self._beats + self._workers:
            return False
        self.url = told["urls"]["web"]
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):
                return self.query("SELECT count(*) FROM jobs_worker") == [(self._workers,)]
        except OSError:
            return False

    def pids(self, prefix: str) -> dict[str, int]:
        """Present pids of the processes whose name begins with ``prefix``."""
        state = json.loads((self.data_dir / "run" / "processes.json").read_text())
        processes = state["processes"] | state["servers"]
        return {name: pid for name, pid in processes.items() if name.startswith(prefix) and pid}

    def query(self, statement: str) -> list[Any]:
        """Rows of a statement on the stage's database, by a session that is kept: tests ask again and again."""
        if self._session:
            try:
                return self._session.execute(statement).fetchall()
            except psycopg.OperationalError:
                if not self._session.closed:
                    raise
        # This is the first session, or the server of the last one is gone; if no server is back, this raises.
        self._session = psycopg.connect(self.database_url, autocommit=True, prepare_threshold=None)
        return self._session.execute(statement).fetchall()

    def execute(self, statements: str) -> None:
        """Carry out statements that return nothing on the stage's database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(statements)

    def manage(self, *arguments: str) -> str:
        """Standard output of a management command on the stage's database. It runs in this process: another one would
        take longer to import Django than the command takes.
        """
        printed = io.StringIO()
        with _connected_to(self.database_url), redirect_stdout(printed):
            call_command(*arguments, stdout=printed)
        return printed.getvalue()

    def call(
        self,
        method: str,
        path: str,
        *,
        key: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """JSON answer of the REST API."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")


@contextmanager
def _connected_to(url: str) -> Iterator[None]:
    """Django's connection of this thread is to another database meanwhile."""
    usual, parts = connections[DEFAULT_DB_ALIAS], psycopg.conninfo.conninfo_to_dict(url)
    other = usual.copy()
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    other.settings_dict |= {name: str(parts.get(part) or "") for name, part in names.items()}
    # pytest-django refuses connections outside of tests that have the database.
    other.ensure_connection = lambda: None if other.connection else other.connect()
    connections[DEFAULT_DB_ALIAS] = other
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual
        other.close()


@cache
def _rabbitmq_of_all() -> str | None:
    """With ``STAGE_BROKER`` (classic or quorum) every stage that says nothing else has RabbitMQ, and no Redis."""
    queues = os.environ.get("STAGE_BROKER")
    if not queues:
        return None
    directory = tempfile.TemporaryDirectory(prefix="carillon-rabbitmq-")
    server = RabbitMQ(data_dir=Path(directory.name))
    atexit.register(directory.cleanup)
    atexit.register(server.close)
    server.start()
    return server.url("quorum" if queues == "quorum" else "classic")


def _create_database(admin_url: str, name: str) -> None:
    """A new database; on the tests' own server with all tables, so that ``up`` finds nothing to migrate."""
    ours = OWN in os.environ and admin_url == os.environ["DATABASE_URL"]
    template = _migrated_template(admin_url) if ours else "template1"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


@cache
def _migrated_template(admin_url: str) -> str:
    """A database with every table and no job, to be copied; made once, and gone with its server."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [EMPTY_COPY]).fetchone():
            return EMPTY_COPY
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(EMPTY_COPY)))
    url = as_url(psycopg.conninfo.make_conninfo(admin_url, dbname=EMPTY_COPY))
    command = ["manage.py", "migrate", "--no-input", "--skip-checks", "--verbosity", "0"]
    done = run_python(command, environment={**os.environ, "DATABASE_URL": url})
    assert done.returncode == 0, done.stderr
    return EMPTY_COPY


def own_database_url() -> str:
    """The tests' own database, for a process started beside them."""
    known = connection.get_connection_params()
    given = {key: known[key] for key in ("host", "port", "user", "password", "dbname") if known.get(key)}
    return as_url(psycopg.conninfo.make_conninfo(**given))

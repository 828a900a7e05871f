"""The stage of a run: a Postgres and a Redis of its own, real beats and workers on them, and nothing left afterwards.

Servers are the embedded ones with production durability (fsync, synchronous commit, append-only file) in a directory of
their own. The environment's ``DATABASE_URL`` and ``REDIS_URL`` are set aside, since a bench fills and empties its
servers. Processes die with this one. A process that ends early fails the bench with the end of its log.
"""

import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import django
import django.db
import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from benchmarks.stage.actor import BenchError, ManagedProcess
from scheduler_project.embedded.stack import EmbeddedStack
from stage.pgbouncer import PgBouncer
from stage.processes import free_port, run_python, start_python
from stage.waiting import NotInTime, wait_until

WORKER_PROCESSES = 2
POLL_SECONDS = 0.02
PROGRESS_SECONDS = 1.0
#: All of Carillon's tables that exist by now; partitions are emptied with their parent.
_TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
      AND (relname ~ '^(jobs|tenants)_' OR relname = 'django_celery_results_taskresult')
"""


class Stage:
    """Servers and processes for the length of a ``with`` block. ``say`` is told what is going on."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self.say = say
        self._actors: list[ManagedProcess] = []
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            home = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="carillon-bench-")))
            for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
                os.environ.pop(name, None)
            os.environ["CARILLON_DATA_DIR"] = str(home)
            os.environ["CARILLON_NOOP_ENABLED"] = "true"
            self.say("starting Postgres and Redis")
            servers = started.enter_context(EmbeddedStack(data_dir=home))
            self._log_dir = home / "log"
            # Kombu's form of a socket's URL.
            self.broker_url = servers.redis_url.replace("unix://", "redis+socket://").replace(
                "?db=", "?virtual_host="
            )
            self.redis_url = servers.redis_url
            self.redis = started.enter_context(redis.Redis.from_url(servers.redis_url))
            self._database_url = servers.database_url
            self.run("migrating", ("manage.py", "migrate", "--no-input", "--skip-checks"))
            os.environ["DJANGO_SETTINGS_MODULE"] = "scheduler_project.settings"
            django.setup()
            started.callback(django.db.connection.close)
            self.db = started.enter_context(psycopg.connect(servers.database_url, autocommit=True))
            self._exits = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def empty(self) -> None:
        """Delete all data that earlier benches stored."""
        tables = [sql.Identifier(name) for (name,) in self.db.execute(_TABLES)]
        self.db.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(tables)))
        self.redis.flushdb()

    def settle(self) -> None:
        """Vacuum and checkpoint after a bulk load, so that autovacuum does not work in the midst of a measurement."""
        self.db.execute("VACUUM (ANALYZE)")
        self.db.execute("CHECKPOINT")

    @property
    def redis_socket(self) -> str:
        """Where Redis listens, for a proxy in front of it."""
        return str(self.redis.connection_pool.connection_kwargs["path"])

    @contextmanager
    def pooled(self) -> Iterator[dict[str, str]]:
        """PgBouncer in front of Carillon's database, by transaction. Yields the environment of processes behind it."""
        from django.conf import settings

        with PgBouncer(self._database_url, mode="transaction") as pooler:
            # Processes that are told of a database need to be told the rest, too.
            rest = {
                "REDIS_URL": self.redis_url,
                "SECRET_KEY": settings.SECRET_KEY,
                "ALLOWED_HOSTS": "localhost",
            }
            yield pooler.environment(str(conninfo_to_dict(self._database_url)["dbname"])) | rest

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection to Carillon's database, for a transaction that stays open. The caller closes it."""
        return psycopg.connect(self._database_url)

    def database(self, name: str) -> str:
        """A fresh database for a peer, on the same Postgres with the same durability. Returns its URL."""
        for statement in ("DROP DATABASE IF EXISTS {} WITH (FORCE)", "CREATE DATABASE {}"):
            self.db.execute(sql.SQL(statement).format(sql.Identifier(name)))
        return self._database_url.replace("@/carillon?", f"@/{name}?")

    def run(self, what: str, argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
        """Run ``python argv`` to its end. Returns its output; raises ``BenchError`` with that output when it fails."""
        self.say(what)
        done = run_python(argv, environment={**os.environ, **(environment or {})})
        if done.returncode:
            raise BenchError(f"{what} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def actor(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        may_end: bool = False,
    ) -> Iterator[ManagedProcess]:
        """Run ``python argv`` for the length of the block. ``may_end``: it may end by itself, with 0."""
        log = self._log_dir / f"{name}.log"
        log.unlink(missing_ok=True)
        process = start_python(
            argv,
            environment={**os.environ, **(environment or {})},
            log=log,
            with_starter=signal.SIGTERM,
        )
        actor = ManagedProcess(name, process, log, may_end)
        self._actors.append(actor)
        try:
            yield actor
        finally:
            self._actors.remove(actor)
            actor.stop()

    @contextmanager
    def server(
        self,
        name: str,
        argv: Callable[[int], Sequence[str]],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """An ``actor`` that listens at the port that ``argv`` is given. Yields its URL, once it listens."""
        port = free_port()

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        with self.actor(name, argv(port), environment=environment):
            self.must(f"{name}: starting", listens)
            yield f"http://127.0.0.1:{port}/"

    def wait(
        self,
        what: str,
        done: Callable[[], bool],
        *,
        timeout_seconds: float,
        poll_seconds: float = POLL_SECONDS,
        progress: Callable[[], str] | None = None,
    ) -> bool:
        """Poll ``done`` until it is true; False when ``timeout_seconds`` pass first.

        ``progress`` is asked once a second how far things are. Raises ``BenchError`` when a process on the stage has
        ended.
        """
        progress_at = time.monotonic() + PROGRESS_SECONDS

        def look() -> None:
            nonlocal progress_at
            for reason in filter(None, (actor.failed() for actor in self._actors)):
                raise BenchError(f"{what}: {reason}")
            if progress is not None and time.monotonic() > progress_at:
                progress_at = time.monotonic() + PROGRESS_SECONDS
                self.say(f"{what}: {progress()}")

        self.say(what)
        try:
            wait_until(done, timeout_seconds, every_seconds=poll_seconds, meanwhile=look)
        except NotInTime:
            return False
        return True

    def must(
        self,
        what: str,
        done: Callable[[], bool],
        *,
        timeout_seconds: float = 120,
        poll_seconds: float = POLL_SECONDS,
        progress: Callable[[], str] | None = None,
    ) -> None:
        """``wait``, but running out of time fails the bench."""
        if not self.wait(
            what, done, timeout_seconds=timeout_seconds, poll_seconds=poll_seconds, progress=progress
        ):
            raise BenchError(f"gave up after {timeout_seconds:g} s: {what}")

    def pause(self, what: str, seconds: float) -> None:
        """Let the processes go on for ``seconds``."""
        until = time.monotonic() + seconds
        self.must(
            what,
            lambda: time.monotonic() >= until,
            timeout_seconds=seconds + 60,
            progress=lambda: f"{until - time.monotonic():.0f} s to go",
        )

    def value(self, query: Any, **parameters: Any) -> Any:
        """The one value a query returns."""
        row = self.db.execute(query, parameters).fetchone()
        return row[0] if row else None

"""The stage of a run: a Postgres and a Redis of its own, real beats and workers on them, and nothing left afterwards.

Servers are the embedded ones with production durability (fsync, synchronous commit, append-only file) in a directory
of their own: the environment's ``DATABASE_URL`` and ``REDIS_URL`` are set aside, since a bench fills and empties what
it finds. Processes die with us. One that ends early fails the bench with the end of its log.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import django
import django.db
import psutil
import psycopg
import redis

from scheduler_project.embedded.server import die_with_parent
from scheduler_project.embedded.stack import EmbeddedStack

PROJECT_DIR = Path(__file__).resolve().parent.parent
WORKER_PROCESSES = 2
POLL_SECONDS = 0.02
STOP_SECONDS = 20.0
LOG_TAIL_LINES = 20
MIB = 1024 * 1024


class BenchError(RuntimeError):
    """A bench could not be carried out; the message says why."""


@dataclass
class Actor:
    """One process on the stage."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    may_end: bool

    def failed(self) -> str | None:
        """Why it is gone, with the end of its log; None while all is well."""
        code = self.process.poll()
        if code is None or (code == 0 and self.may_end):
            return None
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        return f"{self.name} ended with {code}:\n{tail}"

    def rss_mib(self) -> float:
        """Resident memory of the process and all its children now."""
        tree = [psutil.Process(self.process.pid)]
        tree += tree[0].children(recursive=True)
        return sum(process.memory_info().rss for process in tree) / MIB

    def peak_rss_mib(self) -> float:
        """The most the process itself (without children) was ever resident with (Linux' VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for its whole group."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Stage:
    """Servers and processes for the length of a ``with`` block. ``say`` is told what is going on."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self.say = say
        self._actors: list[Actor] = []
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            home = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="carillon-bench-")))
            for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL"):
                os.environ.pop(name, None)
            os.environ["CARILLON_DATA_DIR"] = str(home)
            self.say("starting Postgres and Redis")
            servers = started.enter_context(EmbeddedStack(data_dir=home))
            self._log_dir = home / "log"
            # As kombu spells a socket.
            self.broker_url = servers.redis_url.replace("unix://", "redis+socket://").replace(
                "?db=", "?virtual_host="
            )
            self.redis_url = servers.redis_url
            self.redis = started.enter_context(redis.Redis.from_url(servers.redis_url))
            self._migrate()
            os.environ["DJANGO_SETTINGS_MODULE"] = "scheduler_project.settings"
            django.setup()
            started.callback(django.db.connection.close)
            self.db = started.enter_context(psycopg.connect(servers.database_url, autocommit=True))
            self._exits = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _migrate(self) -> None:
        argv = [sys.executable, "manage.py", "migrate", "--no-input", "--skip-checks"]
        done = subprocess.run(argv, cwd=PROJECT_DIR, check=False, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"manage.py migrate failed:\n{done.stdout}{done.stderr}")

    def empty(self) -> None:
        """Forget everything earlier benches stored."""
        self.db.execute(
            "TRUNCATE jobs_trigger, jobs_attempt, jobs_job, jobs_lease, django_celery_results_taskresult, "
            "tenants_tenant CASCADE"
        )
        self.redis.flushdb()

    @contextmanager
    def actor(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        may_end: bool = False,
    ) -> Iterator[Actor]:
        """Run ``python argv`` for the length of the block. ``may_end``: it comes to its own end, with 0."""
        log = self._log_dir / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *argv],
                cwd=PROJECT_DIR,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        actor = Actor(name, process, log, may_end)
        self._actors.append(actor)
        try:
            yield actor
        finally:
            self._actors.remove(actor)
            actor.stop()

    def wait(
        self,
        what: str,
        done: Callable[[], bool],
        *,
        timeout_seconds: float,
        poll_seconds: float = POLL_SECONDS,
    ) -> bool:
        """Poll ``done`` until it says so; False when ``timeout_seconds`` pass first.

        Raises ``BenchError`` when a process on the stage has ended.
        """
        deadline = time.monotonic() + timeout_seconds
        self.say(what)
        while not done():
            for reason in filter(None, (actor.failed() for actor in self._actors)):
                raise BenchError(reason)
            if time.monotonic() > deadline:
                return False
            time.sleep(poll_seconds)
        return True

    def must(
        self,
        what: str,
        done: Callable[[], bool],
        *,
        timeout_seconds: float = 120,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """``wait``, but running out of time fails the bench."""
        if not self.wait(what, done, timeout_seconds=timeout_seconds, poll_seconds=poll_seconds):
            raise BenchError(f"gave up after {timeout_seconds:g} s: {what}")

    def value(self, query: Any, **parameters: Any) -> Any:
        """The one value a query returns."""
        row = self.db.execute(query, parameters).fetchone()
        return row[0] if row else None

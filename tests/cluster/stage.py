"""A whole Carillon for one test: ``manage.py up`` as a real process tree on a database of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
from psycopg import sql

from tests.stack import redis_database

PROJECT = Path(__file__).resolve().parents[2]


def wait_until(condition: Any, *, timeout: float, what: str) -> Any:
    """Poll ``condition`` until it is true and return its value; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(0.05)


class Stage:
    """``with Stage(beats=2, workers=2) as stage:`` — everything is stopped, and its database dropped, at the end."""

    def __init__(
        self,
        *,
        beats: int,
        workers: int,
        database_url: str | None = None,
        redis_url: str | None = None,
        **environment: str,
    ) -> None:
        self._beats, self._workers = beats, workers
        self._admin_url = database_url or os.environ["DATABASE_URL"]
        self._name = f"cluster_{uuid4().hex[:12]}"
        self._directory = tempfile.TemporaryDirectory(prefix="carillon-cluster-")
        self.data_dir = Path(self._directory.name)
        self.log_path = self.data_dir / "up.log"
        self.environment = {
            **os.environ,
            "DATABASE_URL": psycopg.conninfo.make_conninfo(self._admin_url, dbname=self._name),
            "REDIS_URL": redis_url or redis_database(7),
            "CARILLON_DATA_DIR": str(self.data_dir),
            "CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
            **environment,
        }
        self.environment["DATABASE_URL"] = _as_url(self.environment["DATABASE_URL"])

    def __enter__(self) -> "Stage":
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._name)))
        options = ["--port", "0", "--no-flower", "--concurrency", "2"]
        scale = ["--beats", str(self._beats), "--workers", str(self._workers)]
        self.log = self.log_path.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *options, *scale],
            cwd=PROJECT,
            env=self.environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_until(self._ready, timeout=180, what="up to answer /readyz")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.exit_status = self.process.wait(timeout=60)
        finally:
            self.log.close()
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            with psycopg.connect(self._admin_url, autocommit=True) as connection:
                connection.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._name))
                )
            self._directory.cleanup()

    def readiness(self) -> str:
        """``status`` of /readyz: ok, degraded (broker away) or unavailable (database away)."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=20) as answer:
                return json.loads(answer.read())["status"]
        except urllib.error.HTTPError as error:
            return json.loads(error.read())["status"]

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log_path.read_text()[-4000:]
        state = self.data_dir / "run" / "processes.json"
        if not state.exists():
            return False
        self.url = json.loads(state.read_text())["urls"]["web"]
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def pids(self, prefix: str) -> dict[str, int]:
        """Present pids of the processes whose name begins with ``prefix``."""
        processes = json.loads((self.data_dir / "run" / "processes.json").read_text())["processes"]
        return {name: pid for name, pid in processes.items() if name.startswith(prefix) and pid}

    def query(self, statement: str) -> list[Any]:
        """Rows of a statement on the stage's database."""
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    def execute(self, statements: str) -> None:
        """Carry out statements that return nothing on the stage's database."""
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(statements)

    def manage(self, *arguments: str) -> str:
        """Standard output of a management command beside the running stage."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=PROJECT, env=self.environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def call(self, method: str, path: str, *, key: str, body: Any = None) -> Any:
        """JSON answer of the REST API."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")


def kill_tree(pid: int) -> None:
    """``kill -9`` a process and all its descendants, the parent first so that it cannot react."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _as_url(conninfo: str) -> str:
    """``host=… dbname=…`` as the URL that settings want."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    query = "&".join(f"{key}={parts[key]}" for key in ("host", "port") if parts.get(key))
    user, password = parts.get("user", ""), parts.get("password")
    credentials = f"{user}:{password}" if password else f"{user}"
    return f"postgresql://{credentials}@/{parts['dbname']}?{query}"

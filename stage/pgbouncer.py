"""PgBouncer in front of a Postgres: Debian's program, run by an ordinary user, since it refuses root."""

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scheduler_project.embedded.account import postgres_account
from scheduler_project.embedded.server import die_with_parent
from stage.processes import free_port, tail
from stage.urls import as_url
from stage.waiting import wait_until

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
MISSING = "no PgBouncer is installed (Debian's package pgbouncer)"
Mode = Literal["session", "transaction"]
CONFIGURATION = """
[databases]
* = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = {clients}
"""


class PgBouncer:
    """``with PgBouncer(url, mode="transaction") as pooler:`` stands in front of every database of ``url``'s server.

    ``size``: its connections to each database. It leaves all else at PgBouncer's defaults, and ends with its starter.
    """

    def __init__(self, url: str, *, mode: Mode, size: int = 20, clients: int = 1000) -> None:
        self.mode = mode
        self.port = free_port()
        self._url = url
        self._home = tempfile.TemporaryDirectory(prefix="carillon-pgbouncer-")
        self._directory = Path(self._home.name) / "pgbouncer"
        self._log = Path(self._home.name) / "pgbouncer.log"
        self._settings = {"mode": mode, "size": size, "clients": clients, "port": self.port}

    def __enter__(self) -> Self:
        assert PROGRAM, MISSING
        known = conninfo_to_dict(self._url)
        given = {name: str(known[name]) for name in ("host", "port", "user", "password") if known.get(name)}
        server_directory = given.get("host", "")
        if server_directory.startswith("/"):
            # If root starts it, its account reaches Postgres' socket only from within the socket's directory.
            given["host"] = "/proc/self/cwd"
        server = " ".join(f"{name}={value}" for name, value in given.items())
        account = postgres_account(self._directory)
        Path(self._home.name).chmod(0o711)
        account.own(self._directory)
        configuration = self._directory / "pgbouncer.ini"
        configuration.write_text(CONFIGURATION.format(server=server, **self._settings))
        configuration.chmod(0o644)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [PROGRAM, str(configuration)],
                cwd=server_directory if server_directory.startswith("/") else self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
                **account.popen_arguments(),
            )
        try:
            wait_until(self._answers, what="PgBouncer to answer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._home.cleanup()

    def conninfo(self, database: str) -> str:
        """How to reach that database through it."""
        return make_conninfo(self._url, host="127.0.0.1", port=self.port, dbname=database)

    def environment(self, database: str) -> dict[str, str]:
        """Settings of processes that reach that database through it."""
        return {
            "CARILLON_POOLER": self.mode,
            "DATABASE_DIRECT_URL": as_url(make_conninfo(self._url, dbname=database)),
            "DATABASE_URL": as_url(self.conninfo(database)),
        }

    def _answers(self) -> bool:
        assert self._process.poll() is None, tail(self._log, 20)
        try:
            psycopg.connect(self.conninfo("pgbouncer"), autocommit=True, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

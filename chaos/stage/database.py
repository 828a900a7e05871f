"""The Postgres of a run. A standby may follow it, be promoted, and take its place.

If root starts it, Postgres runs under an account that reaches no directory but its own. So a standby follows by TCP,
through a proxy as every other process does. That link can be held up, too. On a host of its own (``chaos.stage.hosts``)
Postgres serves the other hosts by TCP.
"""

import os
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import psycopg

from chaos.stage.clocks import COMPILER, compile_library, set_clock
from chaos.stage.hosts import Host
from scheduler_project.embedded import paths
from scheduler_project.embedded.account import postgres_programs
from scheduler_project.embedded.postgres import EmbeddedPostgres

COPY_SECONDS = 120
PROMOTION_SECONDS = 60
LIBRARY, CLOCK = "clock.so", "clock"


class ClockedPostgres(EmbeddedPostgres):
    """Postgres where the clock can be set: library and file lie with its data, where its account reaches them."""

    #: Its machine, if that is not the stage's.
    host: Host | None = None

    def prepare(self) -> None:
        super().prepare()
        if self.host:
            with (self.directory / "pg_hba.conf").open("a") as rules:
                rules.write(f"host carillon carillon {self.host.cidr} trust\n")
        if COMPILER:
            compile_library(self.directory / LIBRARY)
            self.set_clock(0)

    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        argv, arguments = super().command()
        argv += ["-c", f"listen_addresses={self.host.address}"] if self.host else []
        # It starts in its directory; each of its processes has the file from the first.
        preloaded = {"LD_PRELOAD": f"./{LIBRARY}", "CHAOS_CLOCK": CLOCK} if COMPILER else {}
        return argv, {**arguments, "env": {**os.environ, **preloaded}}

    def _launch(self) -> None:
        with self.host.entered() if self.host else nullcontext():
            super()._launch()

    def set_clock(self, seconds: int) -> None:
        """Step by so many seconds from the machine's clock, at once."""
        file = self.directory / CLOCK
        set_clock(file, seconds)
        file.chmod(0o644)


class Database:
    """The serving Postgres, in a directory of its own below ``home``, and its standby while it has one."""

    def __init__(self, home: Path, *, log: Path, host: Host | None = None) -> None:
        self._home, self._log, self._host = home, log, host
        self._generation = 0
        self._links: list[Path] = []
        self.server = self._new()
        self.standby: ClockedPostgres | None = None

    @property
    def url(self) -> str:
        """The libpq URL of the one that serves, by its socket."""
        return paths.embedded_database_url(self.server.data_dir)

    @property
    def socket(self) -> str:
        return _socket(self.server)

    @property
    def standby_socket(self) -> str | None:
        return _socket(self.standby) if self.standby else None

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        for server in (self.standby, self.server):
            if server:
                server.stop()
        for link in self._links:
            link.unlink(missing_ok=True)

    def follow(self, *, port: int, synchronous: bool) -> None:
        """Make a standby that follows over ``port``, and wait until it answers.

        ``synchronous``: from now on the server acknowledges no commit that is not on the standby's disk, too.
        """
        standby = self._new()
        _copy(standby, port=port)
        standby.start()
        self.standby = standby
        with psycopg.connect(self.url, autocommit=True) as connection:
            names = "*" if synchronous else ""
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")

    def followed(self, *, synchronous: bool) -> bool:
        """Whether the standby streams, in the way that was asked for."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute("SELECT state, sync_state FROM pg_stat_replication").fetchall()
        return rows == [("streaming", "sync" if synchronous else "async")]

    def lose_server(self) -> None:
        """Its machine is gone: all its processes, at once and for good."""
        process = self.server.running()
        assert process is not None
        # The first process, once suspended, cannot see the others die and tell their clients.
        family = [process, *process.children(recursive=True)]
        process.suspend()
        for each in family[1:] + family[:1]:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        self.server.stop()

    def promote(self) -> None:
        """Let the standby serve in the lost server's place."""
        assert self.standby is not None
        self.server, self.standby = self.standby, None
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true, %s)", [PROMOTION_SECONDS])

    def _new(self) -> ClockedPostgres:
        self._generation += 1
        data_dir = paths.ensure_data_dir(self._home / f"{self._generation}")
        if link := paths.reach_sockets(data_dir):
            self._links.append(link)
        server = ClockedPostgres(data_dir=data_dir)
        server.host = self._host
        server.log = self._log.with_name(f"postgres{self._generation}.log")
        return server


def _socket(server: EmbeddedPostgres) -> str:
    return str(paths._socket_base(server.data_dir) / "postgres" / paths.POSTGRES_SOCKET)


def _copy(standby: EmbeddedPostgres, *, port: int) -> None:
    account = standby.account
    account.own(standby.directory)
    upstream = f"host=127.0.0.1 port={port} user=carillon sslmode=disable"
    command = [str(postgres_programs(account) / "pg_basebackup"), "--pgdata=.", f"--dbname={upstream}"]
    command += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
    subprocess.run(
        command,
        cwd=standby.directory,
        check=True,
        capture_output=True,
        timeout=COPY_SECONDS,
        **account.popen_arguments(),
    )

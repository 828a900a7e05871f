"""A streaming replica of the tests' Postgres, made by ``pg_basebackup`` from it while it works."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from jobs.store import db
from scheduler_project.embedded import paths
from stage.waiting import wait_until
from tests.stack import POSTGRES

COPY_SECONDS = 120


class Replica(POSTGRES):  # type: ignore[valid-type, misc]
    """A replica that follows the server whose socket is in ``upstream``."""

    def __init__(self, *, data_dir: Path, upstream: Path) -> None:
        super().__init__(data_dir=data_dir, ephemeral=True)
        self._upstream = upstream

    def _initialize(self) -> None:
        # As root, Postgres runs under an account that must reach both servers' directories.
        for directory in (self._upstream.parent, self.data_dir):
            directory.chmod(0o711)
        self.account.own(self.directory)
        command = [str(self.programs / "pg_basebackup"), "--pgdata=.", f"--dbname={self._source}"]
        command += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        subprocess.run(
            command,
            cwd=self.directory,
            check=True,
            timeout=COPY_SECONDS,
            **self.account.popen_arguments(),
        )

    @property
    def _source(self) -> str:
        return f"host={self._upstream} user=carillon application_name=replica"

    @property
    def socket(self) -> str:
        return str(self.directory)

    def query(self, statement: str, *parameters: object) -> list[Any]:
        with self._connect() as session:
            answer = session.execute(statement, parameters)  # type: ignore[arg-type]
            return answer.fetchall() if answer.description else []

    def pause(self) -> None:
        """Replay nothing more until ``resume``."""
        self.query("SELECT pg_wal_replay_pause()")
        wait_until(
            lambda: self.query("SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
            20,
            what="replay to pause",
        )

    def resume(self) -> None:
        self.query("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        assert self.query("SELECT pg_promote(true, 60)") == [(True,)]

    def kill(self) -> None:
        """Like ``kill -9`` of all its processes at once."""
        self._signal(signal.SIGKILL)
        self.stop()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        process = self.running()
        assert process is not None
        for each in (process, *process.children(recursive=True)):
            each.send_signal(number)

    def catch_up(self) -> None:
        """Wait until the replica has replayed everything that the primary has written by now."""
        mark, standing = (db.queries("replica")[name].sql for name in ("mark", "standing"))
        with psycopg.connect(f"{self._source} dbname=postgres", autocommit=True) as primary:
            [(_, lsn, *_)] = primary.execute(mark).fetchall()  # type: ignore[arg-type]
        wait_until(
            lambda: self.query(standing)[0][1] >= lsn,
            20,
            what="the replica to catch up",
        )


def upstream_socket() -> Path:
    return Path(str(conninfo_to_dict(os.environ["DATABASE_URL"])["host"]))


@contextmanager
def replica_of_tests(directory: Path) -> Iterator[Replica]:
    replica = Replica(data_dir=paths.ensure_data_dir(directory), upstream=upstream_socket())
    replica.start()
    try:
        yield replica
    finally:
        if (process := replica.running()) and process.status() == "stopped":
            replica.thaw()
        replica.stop()

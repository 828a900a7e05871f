"""Beats and workers outside the stage's supervisor, each known to Postgres by its name, to be killed and frozen."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from stage.processes import BEAT, CELERY, PROJECT_DIR, family, kill_tree, signalled, start_python
from tests.cluster.stage import Stage

QUIET = ("-E", "--without-gossip", "--without-mingle", "--concurrency", "2")


class Crew:
    """``with Crew(stage, beats=2, workers=2) as crew:``. Their names, and ``application_name``: beat1 …, worker1 …"""

    def __init__(
        self, stage: Stage, *, beats: int, workers: int, pool: str = "prefork", directory: Path = PROJECT_DIR
    ) -> None:
        """``directory``: the members run its code; set it again for members that are started from then on."""
        self._stage, self._pool, self.directory = stage, pool, directory
        self.beats = [f"beat{number + 1}" for number in range(beats)]
        self.workers = [f"worker{number + 1}" for number in range(workers)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for name in (*self.beats, *self.workers):
            self.start(name)
        return self

    def __exit__(self, *_: Any) -> None:
        for name in self._processes:
            self.thaw(name)
            self._processes[name].send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            kill_tree(process.pid)

    def start(self, name: str) -> int:
        """Start the member; returns its pid."""
        argv = (
            BEAT
            if name in self.beats
            else (*CELERY, "worker", *QUIET, "-n", f"{name}@%h", "--pool", self._pool)
        )
        url = self._stage.environment["DATABASE_URL"]
        environment = {**self._stage.environment, "DATABASE_URL": f"{url}&application_name={name}"}
        self._processes[name] = start_python(
            argv, environment=environment, log=self._stage.log_path, directory=self.directory
        )
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """``kill -9`` it with all its children, and start it again."""
        kill_tree(self._processes[name].pid)
        self._processes[name].wait()
        self.start(name)

    def restart(self, name: str) -> None:
        """Ask it to stop, as a deployment does, and start it again once it has."""
        self.ask_to_stop(name)
        assert self._processes[name].wait(timeout=60) == 0, name
        self.start(name)

    def ask_to_stop(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGTERM)

    def freeze(self, name: str) -> None:
        """SIGSTOP to it and all its children."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def leader(self) -> str | None:
        """The beat that holds the lease, by its name."""
        rows = self._stage.query(
            "SELECT holder FROM jobs_lease WHERE name = 'leader' AND expires_at > clock_timestamp()"
        )
        pid = int(rows[0][0].split(":")[1]) if rows else None
        return next((name for name in self.beats if self._processes[name].pid == pid), None)

    def pids(self) -> list[int]:
        """The pids of the members that run."""
        return [process.pid for process in self._processes.values() if process.poll() is None]

    def ended(self) -> list[str]:
        """The members that ended by themselves."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def _signal(self, name: str, number: signal.Signals) -> None:
        signalled(family(self._processes[name].pid), number)

"""Beats and workers outside the stage's supervisor, each known to Postgres by its name, to be killed and frozen."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import psutil

from tests.cluster.stage import PROJECT, Stage, kill_tree

CELERY = [sys.executable, "-m", "celery", "-A", "scheduler_project"]
QUIET = ("-E", "--without-gossip", "--without-mingle", "--concurrency", "2")


class Crew:
    """``with Crew(stage, beats=2, workers=2) as crew:``. Their names, and ``application_name``: beat1 …, worker1 …"""

    def __init__(self, stage: Stage, *, beats: int, workers: int) -> None:
        self._stage = stage
        self.beats = [f"beat{number + 1}" for number in range(beats)]
        self.workers = [f"worker{number + 1}" for number in range(workers)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Crew":
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

    def start(self, name: str) -> None:
        command = [*CELERY, "worker", *QUIET, "-n", f"{name}@%h"]
        if name in self.beats:
            command = [*CELERY, "beat", "-S", "jobs.engine.beat:LeaderScheduler", "--pidfile="]
        url = self._stage.environment["DATABASE_URL"]
        self._processes[name] = subprocess.Popen(
            command,
            cwd=PROJECT,
            env={**self._stage.environment, "DATABASE_URL": f"{url}&application_name={name}"},
            stdout=self._stage.log,
            stderr=self._stage.log,
            start_new_session=True,
        )

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

    def ended(self) -> list[str]:
        """Those that ended by themselves."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def _signal(self, name: str, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._processes[name].pid)
            for member in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    os.kill(member.pid, number)

"""The common part of the embedded Postgres and Redis: find or start, wait until it answers, stop in order.

Each server runs with its own directory as working directory. A running server is recognised by that: it is a process of
the right program whose working directory is this directory. A pid file can be stale or name a foreign process;
this cannot.

Servers get a session of their own, so that Ctrl-C in the terminal does not reach them before their clients
have drained. When the owner is killed with SIGKILL, the servers live on, and the next start adopts them.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

ANSWER_TIMEOUT = timedelta(seconds=120)  # crash recovery after a hard stop may take a while
POLL_SECONDS = 0.02
#: Children that a main process leaves behind notice its end and end too, unless they are busy.
ORPHAN_PATIENCE = timedelta(seconds=1)
LOG_TAIL_LINES = 15
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class EmbeddedError(RuntimeError):
    """An embedded server cannot be started; the message says why and what to do."""


class Cancelled(EmbeddedError):
    """The caller that waited for a start has given it up."""


class EmbeddedServer(ABC):
    """One server of one data directory. ``start`` and ``stop`` may be repeated.

    ``ephemeral`` trades durability for speed. The server then dies with this process, even when that is killed.
    """

    program: str
    name: str
    stop_stages: tuple[tuple[signal.Signals, timedelta], ...]

    def __init__(self, *, data_dir: Path, ephemeral: bool = False) -> None:
        self.data_dir = data_dir
        self.directory = data_dir / self.name
        self.log = data_dir / "log" / f"{self.name}.log"
        self.ephemeral = ephemeral
        self._child: subprocess.Popen[bytes] | None = None
        self._main: psutil.Process | None = None

    @abstractmethod
    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        """Argument vector and ``Popen`` arguments that start the server."""

    @abstractmethod
    def prepare(self) -> None:
        """Make ready for a start; called only when no server runs in ``directory``."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client can work with it now."""

    @property
    def pid(self) -> int | None:
        process = self.running()
        return process.pid if process else None

    def running(self) -> psutil.Process | None:
        """The server's main process, whichever process started it."""
        found = {process.pid: process for process in self._processes()}
        for process in found.values():
            # The process may have ended since it was found: a child of Postgres may live for one query only.
            with suppress(psutil.NoSuchProcess):
                if process.ppid() not in found:
                    return process
        return None

    @property
    def alive(self) -> bool:
        """Whether the main process that ``start`` found or started still runs; costs next to nothing."""
        return self._main is not None and _alive(self._main)

    def start(self, *, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Adopt the server that an earlier owner left, or start one; return when it answers.

        Raises ``EmbeddedError`` with the end of its log when it dies or stays silent, ``Cancelled`` when ``cancelled``
        says so.
        """
        deadline = time.monotonic() + ANSWER_TIMEOUT.total_seconds()
        while not ((main := self.running()) and self.answers()):
            if cancelled():
                raise Cancelled(f"The start of {self.name} was cancelled.")
            if self._child and self._child.poll() is not None:
                raise EmbeddedError(
                    f"{self.name} ended with {self._child.returncode} at start. {self._log_tail()}"
                )
            if time.monotonic() > deadline:
                raise EmbeddedError(f"{self.name} (pid {self.pid}) does not answer. {self._log_tail()}")
            if self._child is None and not self._processes():
                self._launch()
            time.sleep(POLL_SECONDS)
        self._main = main

    def revive(self, *, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Start it again after its main process died; return when it has recovered and answers.

        The data directory is ours alone, so without a main process every process there is an orphan. No server is
        started beside an orphan: two Postgres would write the same files. May be repeated. Raises as ``start`` does.
        """
        if self._child and self._child.poll() is not None:
            self._child = None
        if not self.alive and self._child is None:
            self._end_orphans()
        self.start(cancelled=cancelled)

    def _end_orphans(self) -> None:
        deadline = time.monotonic() + ORPHAN_PATIENCE.total_seconds()
        while orphans := [process for process in self._processes() if _alive(process)]:
            if time.monotonic() > deadline:
                for process in orphans:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop it by ever stronger signals; returns when it is gone."""
        process = self.running()
        for number, patience in (*self.stop_stages, (signal.SIGKILL, timedelta(seconds=10))):
            if process is None:
                break
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
            deadline = time.monotonic() + patience.total_seconds()
            while _alive(process) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            process = self.running()
        if self._child:
            self._child.wait()
        self._child = self._main = None

    def _processes(self) -> list[psutil.Process]:
        directory, mine = str(self.directory), []
        for process in psutil.process_iter(["name"]):
            # Another user's process hides its directory; ours never does.
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.info["name"] == self.program and process.cwd() == directory:
                    # psutil remembers the first process of each pid; for psutil a later process with it counts as gone.
                    mine.append(psutil.Process(process.pid))
        return mine

    def _launch(self) -> None:
        self.prepare()
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".old.log"))
        argv, arguments = self.command()
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603
                argv,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGINT) if self.ephemeral else None,
                **arguments,
            )

    def _log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"The end of {self.log}:\n" + "\n".join(lines[-LOG_TAIL_LINES:])


def _alive(process: psutil.Process) -> bool:
    # Not psutil's wait(): an adopted server that has ended stays a zombie until PID 1 reaps it.
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """A ``preexec_fn`` after which the kernel sends ``number`` to the child when the starting *thread* ends.

    None where the kernel cannot (outside Linux). Start such children from the main thread.
    """
    return partial(die_with, os.getpid(), number) if sys.platform.startswith("linux") else None


def die_with(parent: int, number: signal.Signals) -> None:
    """From now on the kernel sends ``number`` to this process when the thread that is its parent ends. Linux only."""
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the kernel knew of the request
        os._exit(1)


def package_dir(name: str) -> Path:
    """Where the installed package ``name`` keeps its files, without importing it (that has side effects)."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            f"The package {name} is not installed: install it, or set DATABASE_URL and REDIS_URL."
        )
    return Path(spec.submodule_search_locations[0])

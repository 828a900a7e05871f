"""One supervised child: how it is started, when it is started again, how it is stopped.

A child leads a session of its own, so a signal reaches it, and everything that it forked, only through its supervisor.
When the child ends, for any cause, the rest of its process group is killed before its pid can be given to another
process. When the supervisor is killed, the kernel kills the child.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import IO, Protocol

from scheduler_project.embedded.server import die_with_parent

FIRST_BACKOFF = timedelta(seconds=1)
MAX_BACKOFF = timedelta(seconds=30)
LIFE_THAT_RESETS_BACKOFF = timedelta(seconds=60)
FORCED_TIMEOUT = timedelta(seconds=5)
READ_BYTES = 65_536


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """A process to keep alive. The lowest ``order`` is stopped first; processes of equal order stop together.

    ``stop_signal`` asks it to finish. After ``stop_timeout``, ``force_signal`` asks it to give up, and
    ``FORCED_TIMEOUT`` later its whole group is killed. ``env`` is added to the supervisor's environment.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout: timedelta = timedelta(seconds=10)
    force_signal: signal.Signals = signal.SIGKILL
    order: int = 0


class Running(Protocol):
    """A process that is a child of this one. ``stdout`` is the reading end of all that it prints."""

    pid: int
    stdout: IO[bytes] | None

    def wait(self) -> int: ...


class StopStage(IntEnum):
    """How firmly a child has been asked to stop."""

    KEPT = 0
    ASKED = 1
    FORCED = 2
    KILLED = 3


class Child:
    """The present process of a ``ProcessSpec``, and the back-off that earlier ones led to. Times are monotonic."""

    def __init__(self, spec: ProcessSpec, start: Callable[[ProcessSpec], Running]) -> None:
        self.spec = spec
        self.stage = StopStage.KEPT
        self.process: Running | None = None
        self._start = start
        self.output: IO[bytes] | None = None
        self.starts = 0
        self.start_at = 0.0  # when to start next; only valid while there is no process
        self.stage_ends_at = float("inf")
        self._started_at = 0.0
        self._backoff = FIRST_BACKOFF

    def start(self) -> None:
        """Start it. Raises ``OSError`` when its program cannot be executed."""
        self._started_at = time.monotonic()
        self.starts += 1
        self.process = self._start(self.spec)
        self.output = self.process.stdout
        assert self.output is not None
        os.set_blocking(self.output.fileno(), False)

    def read(self) -> bytes | None:
        """Its output since the last call; empty when its output is closed, None when there is no output for now."""
        try:
            return os.read(self.output.fileno(), READ_BYTES) if self.output else b""
        except BlockingIOError:
            return None

    def reap(self) -> int | None:
        """Its return code (negative: the signal) once it has ended, with its whole group; None before."""
        if self.process is None:
            return None
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        # The child is not reaped yet, so the number of its group is still its own.
        self._signal_group(signal.SIGKILL)
        code = self.process.wait()
        self.process = None
        return code

    def kill(self) -> None:
        """Kill it and its group at once, and wait for its end."""
        if self.process:
            self._signal_group(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def schedule_restart(self) -> timedelta:
        """Decide when to start again and return the delay. It doubles each time, and is reset after a long life."""
        now = time.monotonic()
        if now - self._started_at >= LIFE_THAT_RESETS_BACKOFF.total_seconds():
            self._backoff = FIRST_BACKOFF
        delay = self._backoff
        self._backoff = min(delay * 2, MAX_BACKOFF)
        self.start_at = now + delay.total_seconds()
        return delay

    def press(self, *, hasten: bool = False) -> None:
        """Ask it to stop, one stage more firmly than before; ``hasten`` shortens the wait for its end."""
        self.stage = StopStage(min(self.stage + 1, StopStage.KILLED))
        patience = self.spec.stop_timeout if self.stage is StopStage.ASKED and not hasten else FORCED_TIMEOUT
        self.stage_ends_at = time.monotonic() + patience.total_seconds()
        if self.process is None:
            return
        if self.stage is StopStage.ASKED:
            os.kill(self.process.pid, self.spec.stop_signal)  # Popen's own method would reap it first
        elif self.stage is StopStage.FORCED and self.spec.force_signal is not signal.SIGKILL:
            os.kill(self.process.pid, self.spec.force_signal)
        else:
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        if self.process:
            with suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                os.killpg(self.process.pid, number)


def start_program(spec: ProcessSpec) -> "subprocess.Popen[bytes]":
    """Start the program that ``spec`` names. Raises ``OSError`` when it cannot be executed."""
    return subprocess.Popen(  # noqa: S603
        spec.argv,
        env={**os.environ, **spec.env},
        cwd=spec.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=before_it_starts(),
    )


def before_it_starts() -> Callable[[], None]:
    """A ``preexec_fn`` for a child that dies with this process and heeds its signals.

    A shell makes processes that it starts in the background ignore SIGINT and SIGQUIT, and children inherit that.
    """
    die_with_us = die_with_parent(signal.SIGKILL)

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        if die_with_us:
            die_with_us()

    return prepare

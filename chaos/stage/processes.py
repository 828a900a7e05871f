"""The processes of a run: started by their ordinary commands, and started again when a fault killed them.

``tend`` does the work of a supervisor. A process that ends without a fault is started again too, so that the run goes
on. It goes into the history as a death, which the judge counts against the system.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from chaos.history import Died
from chaos.stage.hosts import Host
from stage.processes import family, signalled, start_python, tail

RESTART_SECONDS = 1.0
STOP_SECONDS = 20.0
LINES = 40


@dataclass
class ManagedProcess:
    """One process: its command and environment, and its present life."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    #: Its machine, if that is not the stage's.
    host: Host | None = None
    process: subprocess.Popen[bytes] | None = None
    restart_at: float | None = None
    lives: int = 0
    expected: bool = field(default=False)

    def start(self) -> None:
        self.lives += 1
        self.restart_at, self.expected = None, False
        with self.host.entered() if self.host else nullcontext():
            self.process = start_python(self.argv, environment=self.environment, log=self.log)

    def last_words(self) -> str:
        """The end of its log."""
        return tail(self.log, LINES)

    def family(self) -> list[psutil.Process]:
        """The process and all its descendants, itself first."""
        return family(self.process.pid) if self.process and self.process.poll() is None else []


class Processes:
    """All actors by name. Use it from the main thread: the end of that thread ends them."""

    def __init__(self, *, note: Callable[[Died], None]) -> None:
        self.actors: dict[str, ManagedProcess] = {}
        self._note = note

    def start(self, actor: ManagedProcess) -> None:
        self.actors[actor.name] = actor
        actor.start()

    def named(self, prefix: str) -> list[ManagedProcess]:
        return [actor for name, actor in self.actors.items() if name.startswith(prefix)]

    def started(self) -> list[ManagedProcess]:
        """The processes of the stage's Carillon."""
        return [actor for prefix in ("web", "beat", "worker", "pull") for actor in self.named(prefix)]

    def by_pid(self, pid: int) -> ManagedProcess | None:
        """The actor whose process, or a child of it, has this pid."""
        for actor in self.actors.values():
            if any(process.pid == pid for process in actor.family()):
                return actor
        return None

    def kill(self, actor: ManagedProcess) -> None:
        """``kill -9`` to the whole family, the parent first so that it cannot react; it is started again in a while."""
        actor.expected = True
        signalled(actor.family(), signal.SIGKILL)

    def terminate(self, actor: ManagedProcess) -> None:
        """SIGTERM to the parent, as a deploy would; it is started again when it has gone."""
        actor.expected = True
        signalled(actor.family()[:1], signal.SIGTERM)

    def tend(self) -> None:
        """Start the processes again that have ended."""
        for actor in self.actors.values():
            if actor.process is None or actor.process.poll() is None:
                continue
            if actor.restart_at is None:
                if not actor.expected:
                    self._note(
                        Died(
                            at=time.time(),
                            process=actor.name,
                            code=actor.process.returncode,
                            says=actor.last_words(),
                        )
                    )
                actor.restart_at = time.monotonic() + RESTART_SECONDS
            elif time.monotonic() >= actor.restart_at:
                actor.start()

    def stop(self) -> None:
        """SIGTERM to all, SIGKILL to those that are left."""
        families = [process for actor in self.actors.values() for process in actor.family()]
        for actor in self.actors.values():
            signalled(actor.family()[:1], signal.SIGCONT)
            signalled(actor.family()[:1], signal.SIGTERM)
        _, alive = psutil.wait_procs(families, timeout=STOP_SECONDS)
        signalled(alive, signal.SIGKILL)
        for actor in self.actors.values():
            if actor.process:
                actor.process.wait()
        self.actors.clear()

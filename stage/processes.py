"""Python processes that never outlive their starter, and families of processes."""

import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from scheduler_project.embedded.server import die_with_parent

PROJECT_DIR = Path(__file__).resolve().parent.parent
CELERY = ("-m", "celery", "-A", "scheduler_project")
BEAT = (*CELERY, "beat", "-S", "jobs.engine.beat:LeaderScheduler", "--pidfile=")


def start_python(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    with_starter: signal.Signals = signal.SIGKILL,
    directory: Path = PROJECT_DIR,
) -> "subprocess.Popen[bytes]":
    """Start ``python argv`` in a session of its own; its output is added to ``log``.

    ``with_starter``: the signal it gets when the thread that started it ends. ``directory``: whose code it runs.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *argv],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(with_starter),
        )


def run_python(argv: Sequence[str], *, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run ``python argv`` in the project's directory until it exits, with any exit code, and keep its output."""
    return subprocess.run(
        [sys.executable, *argv],
        cwd=PROJECT_DIR,
        env=dict(environment),
        check=False,
        capture_output=True,
        text=True,
    )


def tail(log: Path, lines: int) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def family(pid: int) -> list[psutil.Process]:
    """The process and all its descendants, itself first; empty when it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signalled(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def kill_tree(pid: int) -> None:
    """``kill -9`` a process and all its descendants, the parent first so that it cannot react."""
    signalled(family(pid), signal.SIGKILL)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie that PID 1 has not collected yet counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def free_port() -> int:
    """A port of the loopback address that nothing listens on, and that no outgoing connection takes meanwhile.

    The kernel gives ports of 32768 and above to outgoing connections: such a port may be taken by the time a server
    starts.
    """
    for port in random.SystemRandom().sample(range(16_384, 32_768), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("None of a hundred ports of the loopback address is free.")

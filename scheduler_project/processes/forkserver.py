"""Children that are forked from a process which has imported Carillon already: most of a start is importing.

``python -m scheduler_project.processes.forkserver`` is that process. It has one thread, no connection and no module of
handlers, and it imports while ``up`` migrates. A child starts in tenths of a second, and shares the memory of what is
imported with the others.

Linux alone lets a process have children that another one forked: the child is born of a process that ends at once, and
the kernel gives it to the nearest ancestor that asks for orphans. So its owner reaps it, and it dies with its owner.
With Python's own ``multiprocessing.forkserver`` it would do neither. Elsewhere, and when the server has died, children
are started as programs of their own.
"""

import ctypes
import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

import django
from django.conf import settings
from django.utils.module_loading import import_string
from setproctitle import setproctitle

from scheduler_project.embedded.server import die_with
from scheduler_project.processes import collector
from scheduler_project.processes.child import ProcessSpec, Running, before_it_starts, start_program
from scheduler_project.worker import flower

PYTHON_MODULE = [sys.executable, "-m"]
#: What the programs import as they start, beside Django's applications, URLs and middleware.
IMPORTED = (
    "aiohttp",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "flower.command",
    "gunicorn.app.wsgiapp",
    "jobs.engine.beat",
    "jobs.tasks",
    "scheduler_project.web.worker",
    "scheduler_project.worker.consumer",
)
IMPORT_SECONDS, ANSWER_SECONDS = 120.0, 10.0
MAX_REQUEST_BYTES = 128 * 1024
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Forked:
    """A child of this process that the fork server made."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout

    def wait(self) -> int:
        """Its return code (negative: the signal), once it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ForkServer:
    """Starts children for the length of a ``with`` block, in the main thread.

    ``env`` is added to this process's environment before anything is imported: settings are read once, for all
    children. ``say`` is told when children have to be started as programs.
    """

    def __init__(self, *, env: Mapping[str, str], cwd: Path, say: Callable[[str], None]) -> None:
        self._env, self._cwd, self._say = {**os.environ, **env}, cwd, say
        self._requests: socket.socket | None = None

    def __enter__(self) -> Self:
        if not sys.platform.startswith("linux"):
            return self
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A terminal would change how children log.
        self._output = tempfile.TemporaryFile()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [*PYTHON_MODULE, __name__],
                env=self._env,
                cwd=self._cwd,
                stdin=theirs.fileno(),
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before_it_starts(),
            )
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def wait_until_imported(self) -> None:
        """Return when the server can fork, or cannot be used."""
        if self._requests and not self._answer(IMPORT_SECONDS):
            self._give_up()

    def start(self, spec: ProcessSpec) -> Running:
        """Start the child: by a fork where possible. Raises ``OSError`` when its program cannot be executed."""
        if self._requests and spec.argv[:2] == PYTHON_MODULE and spec.cwd == self._cwd:
            if forked := self._fork(spec):
                return forked
            self._give_up()
        return start_program(spec)

    def _fork(self, spec: ProcessSpec) -> Forked | None:
        assert self._requests
        request = json.dumps({"argv": spec.argv, "env": dict(spec.env)}).encode()
        reader, writer = os.pipe()
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            socket.send_fds(self._requests, [request], [writer])
            pid = self._answer(ANSWER_SECONDS)
        except OSError:  # the server is gone
            pid = b""
        finally:
            # What a killed child leaves behind goes to PID 1, which reaps it.
            _libc.prctl(PR_SET_CHILD_SUBREAPER, 0)
            os.close(writer)
        output = os.fdopen(reader, "rb", buffering=0)
        if pid:
            return Forked(int(pid), output)
        output.close()
        return None

    def _answer(self, seconds: float) -> bytes:
        """The next answer. Empty when none came within ``seconds``: then none will come."""
        assert self._requests
        self._requests.settimeout(seconds)
        try:
            return self._requests.recv(64)
        except TimeoutError:
            # A child that has not answered yet cannot from here on, and ends.
            self._requests.shutdown(socket.SHUT_RD)
            return self._requests.recv(64)

    def _give_up(self) -> None:
        self._say(f"The fork server is gone. Processes start without it, but later.\n{self._end()}".strip())

    def _end(self) -> str:
        """End the server, if it is there; returns what it printed."""
        if self._requests is None:
            return ""
        self._requests.close()
        self._requests = None
        self._process.kill()
        self._process.wait()
        with self._output as output:
            output.seek(0)
            return output.read().decode(errors="replace")


def main() -> None:
    """Import, then fork a child for each request until the owner has gone. Returns in each child, as that program."""
    owner = os.getppid()
    requests = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    _import()
    collector.spare()
    requests.send(b"ready")
    asked, output = _forked(requests, owner)
    os.setsid()
    die_with(owner, signal.SIGKILL)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    os.close(output)
    os.environ.update(asked["env"])
    requests.send(str(os.getpid()).encode())
    requests.close()
    # For `ps`; Celery and gunicorn put their own in its place.
    setproctitle(shlex.join(asked["argv"]))
    module, *sys.argv[1:] = asked["argv"][len(PYTHON_MODULE) :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _import() -> None:
    django.setup()
    for name in (*IMPORTED, settings.ROOT_URLCONF):
        import_module(name)
    for name in settings.MIDDLEWARE:
        import_string(name)
    flower.close()


def _forked(requests: socket.socket, owner: int) -> tuple[Any, int]:
    """In a child: what it was asked to be, and where its output goes."""
    while True:
        request, files, *_ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 1)
        if not request:
            sys.exit()
        if between := os.fork():
            os.close(files[0])
            os.waitpid(between, 0)
            continue
        between = os.getpid()
        if os.fork():
            os._exit(0)
        while (parent := os.getppid()) == between:
            time.sleep(0.0005)
        if parent != owner:
            os._exit(1)
        return json.loads(request), files[0]


if __name__ == "__main__":
    main()

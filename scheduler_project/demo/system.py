"""Carillon itself, as the demo runs it: ``manage.py up`` in a data directory of its own, as a child process.

The demo must behave alike on every machine and must not touch a user's data. So ``own_environment`` drops every setting
of Carillon from the environment, and the servers are always the embedded ones of the demo's directory. The child leads
its own session, and the demo stops it in order; if the demo is killed, the kernel tells the child to stop. The child's
output goes to ``log/up.log``. The end of that file is quoted when the child cannot start.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from scheduler_project.embedded.paths import ensure_data_dir
from scheduler_project.embedded.server import die_with_parent
from scheduler_project.embedded.stack import EmbeddedStack
from scheduler_project.processes.up import PROJECT_DIR

PLATFORM_SETTINGS = (
    "ALLOWED_HOSTS",
    "BROKER_URL",
    "CSRF_TRUSTED_ORIGINS",
    "DATABASE_URL",
    "DEBUG",
    "REDIS_URL",
    "SECRET_KEY",
)
START_TIMEOUT = timedelta(seconds=120)
STOP_TIMEOUT = timedelta(seconds=90)
POLL_SECONDS = 0.2
QUOTED_LINES = 25


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why and where to look."""


def own_environment(environment: Mapping[str, str], *, data_dir: Path) -> dict[str, str]:
    """``environment`` with Carillon's settings replaced by the demo's: embedded servers, loopback webhooks."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in PLATFORM_SETTINGS and not name.startswith("CARILLON_")
    }
    return kept | {
        "CARILLON_DATA_DIR": str(data_dir.expanduser().resolve()),
        # Only the demo's own workers may call loopback: the receiver lives there.
        "CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
        # So that users can try the page.
        "CARILLON_SECOND_FACTOR": "optional",
    }


class System(AbstractAsyncContextManager["System"]):
    """``manage.py up`` for the length of an ``async with``; inside, it answers requests at ``urls["web"]``.

    Raises ``DemoError`` when it does not start.
    """

    def __init__(self, *, data_dir: Path, port: int) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir / "log" / "up.log"
        self.urls: dict[str, str] = {}
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        ensure_data_dir(self.data_dir)
        self.log_path.parent.mkdir(mode=0o700, exist_ok=True)
        ports = ["--port", str(free_or_any(self._port)), "--flower-port", str(free_or_any(5555))]
        with self.log_path.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "manage.py", "up", "--data-dir", str(self.data_dir), *ports),
                cwd=PROJECT_DIR,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        try:
            await self._await_ready(self._process)
        except BaseException:
            await self._stop(self._process)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process:
            await self._stop(self._process)

    async def watch(self) -> None:
        """Wait for ``up`` to end by itself, which it should not, and raise ``DemoError``."""
        assert self._process
        code = await self._process.wait()
        raise DemoError(f"`manage.py up` ended with {code}:\n{self._log_end()}")

    async def audit(self) -> tuple[int, str]:
        """Compare the ledger with the schedules: exit code and output of ``manage.py audit_firings``."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "manage.py", "audit_firings"),
            cwd=PROJECT_DIR,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                _signal(process, signal.SIGKILL)
        return await process.wait(), said.decode(errors="replace").strip()

    def hasten(self) -> None:
        """Make an ordered stop quicker, as a second Ctrl-C at ``up`` would. May be called at any time."""
        if self._process:
            _signal(self._process, signal.SIGTERM)

    async def _await_ready(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT.total_seconds()), aiohttp.ClientSession() as session:
                while not await self._is_ready(process, session):
                    if process.returncode is not None:
                        raise DemoError(f"`manage.py up` ended with {process.returncode}:\n{self._log_end()}")
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            seconds = START_TIMEOUT.total_seconds()
            raise DemoError(f"Carillon was not ready within {seconds:g} s:\n{self._log_end()}") from None

    async def _is_ready(self, process: asyncio.subprocess.Process, session: aiohttp.ClientSession) -> bool:
        try:
            state = json.loads((self.data_dir / "run" / "processes.json").read_text())
        except FileNotFoundError:
            return False
        if state["up"] != process.pid:  # left behind by an ``up`` that was killed
            return False
        self.urls = state["urls"]
        try:
            async with session.get(f"{self.urls['web']}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT.total_seconds()):
                await process.wait()
        except TimeoutError:
            _signal(process, signal.SIGKILL)
            await process.wait()
        if process.returncode and process.returncode < 0:
            # Killed, by the demo or by another process: the kernel ends its children; its servers wait for a next `up`.
            await asyncio.to_thread(_stop_servers, self.data_dir)

    def _log_end(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-QUOTED_LINES:]
        return "\n".join([*(f"    {line}" for line in lines), f"All of it: {self.log_path}"])


def free_or_any(port: int) -> int:
    """``port`` when it can be bound on loopback, else 0: any free port."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return port
    except OSError:
        return 0


def _stop_servers(data_dir: Path) -> None:
    for server in EmbeddedStack(data_dir=data_dir).servers:
        server.stop()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def enter_own_environment(*, data_dir: Path) -> None:
    """Start this command again in the demo's environment, unless that is set already; keeps the pid.

    Django has read its settings by the time a command runs, so a change of settings needs a new start.
    """
    wanted = own_environment(os.environ, data_dir=data_dir)
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)  # noqa: S606

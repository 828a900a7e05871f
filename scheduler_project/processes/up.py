"""``manage.py up``: the whole of Carillon in one terminal.

Order of a start: servers, migrations, admin account, then web, beats, workers and Flower together. Order of a
stop: web (no new requests come in), beats (nothing new is dispatched, the lease is handed over), workers (running
handlers may finish), Flower, servers. A failure before the children run ends ``up`` with its reason. A later failure is
a child's; the child is then started again.
"""

import io
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from django.core.management import CommandError, call_command
from django.db import DatabaseError, connections

from scheduler_project.embedded import paths
from scheduler_project.embedded.server import EmbeddedError
from scheduler_project.embedded.stack import EmbeddedStack
from scheduler_project.embedded.watch import ServerWatch
from scheduler_project.processes.child import ProcessSpec
from scheduler_project.processes.console import Console
from scheduler_project.processes.forkserver import ForkServer
from scheduler_project.processes.supervisor import SUPERVISOR, Supervisor

PROJECT_DIR = Path(__file__).resolve().parent.parent.parent
CELERY = [sys.executable, "-m", "celery", "-A", "scheduler_project"]
# The web workers of an ``up`` that was killed notice that, and release the port, within a second or two.
PORT_PATIENCE = timedelta(seconds=4)
#: The niceness of handlers on a machine that they share with beats, web processes and servers.
SHARED_POOL_NICENESS = "7"


class UpError(RuntimeError):
    """``up`` cannot start; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """The options of the command line. A port of 0 is any free one; ``flower_port`` None leaves Flower out."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    flower_port: int | None = 5555
    workers: int = 1
    beats: int = 1
    concurrency: int | None = None


def up(options: UpOptions) -> None:
    """Run everything until SIGINT, SIGTERM or SIGHUP; return when all processes have ended.

    Raises ``UpError`` when it cannot start.
    """
    try:
        with EmbeddedStack(data_dir=options.data_dir) as stack:
            _run(options, stack)
    except (EmbeddedError, PermissionError) as error:
        raise UpError(str(error)) from error


def _run(options: UpOptions, stack: EmbeddedStack) -> None:
    state_path = stack.data_dir / "run" / "processes.json"
    state_path.unlink(missing_ok=True)  # left by an ``up`` that was killed
    ports = {"web": _free_port(options.host, options.port, option="--port")}
    if options.flower_port is not None:
        ports["flower"] = _free_port(options.host, options.flower_port, option="--flower-port")
    urls = {name: f"http://{_in_url(options.host)}:{port}" for name, port in ports.items()}
    env = {"CARILLON_DATA_DIR": str(stack.data_dir), "PYTHONUNBUFFERED": "1", **stand_back()}
    if "flower" in urls:
        env.setdefault("CARILLON_FLOWER_URL", os.environ.get("CARILLON_FLOWER_URL") or urls["flower"])
    specs = list(process_specs(options, ports=ports, env=env, data_dir=stack.data_dir))
    console = Console(names=[SUPERVISOR, *(spec.name for spec in specs)])
    say = partial(console.say, SUPERVISOR)
    with ForkServer(env=env, cwd=PROJECT_DIR, say=say) as fork_server:
        for line in _command("migrate", "--no-input").splitlines():
            say(line)
        admin = json.loads(_command("ensure_admin", "--json"))

        say(f"Carillon  {urls['web']}/admin/  API {urls['web']}/api/docs  data {stack.data_dir}")
        if "flower" in urls:
            say(f"Flower    {urls['flower']}  user admin, password in {stack.data_dir}/flower-password")
        if admin["created"]:
            say(f"Login     user {admin['username']}, password {admin['password']} (shown only now)")
        about = {"urls": urls, "ports": ports, "servers": stack.pids}
        fork_server.wait_until_imported()
        with ServerWatch(stack.servers) as servers:
            Supervisor(
                specs,
                state_path=state_path,
                about=about,
                console=console,
                servers=servers,
                start=fork_server.start,
            ).run()
    say("stopped")


def process_specs(
    options: UpOptions, *, ports: Mapping[str, int], env: Mapping[str, str], data_dir: Path
) -> Iterator[ProcessSpec]:
    """The processes of Carillon, first to be stopped first. ``ports`` are of ``web`` and, if wanted, ``flower``."""
    spec = partial(ProcessSpec, env=env, cwd=PROJECT_DIR)
    bind = ("--bind", f"{_in_url(options.host)}:{ports['web']}")  # the rest: gunicorn.conf.py
    yield spec(
        name="web",
        argv=[sys.executable, "-m", "gunicorn", "scheduler_project.wsgi:application", *bind],
        stop_timeout=timedelta(seconds=15),
        order=0,
    )
    for i in range(1, options.beats + 1):
        argv = [*CELERY, "beat", "-S", "jobs.engine.beat:LeaderScheduler", "--pidfile="]
        yield spec(name=f"beat{i}", argv=argv, order=1)
    concurrency = [] if options.concurrency is None else ["--concurrency", str(options.concurrency)]
    for i in range(1, options.workers + 1):
        quiet = ("--without-gossip", "--without-mingle")
        yield spec(
            name=f"worker{i}",
            argv=[*CELERY, "worker", "-E", *quiet, "-n", f"worker{i}@%h", *concurrency],
            stop_timeout=timedelta(seconds=30),
            force_signal=signal.SIGQUIT,  # Celery's cold shutdown
            order=2,
        )
    if "flower" in ports:
        # Passed by the environment: every user can read a process's arguments.
        login = f"admin:{paths.kept_secret(data_dir, 'flower-password')}"
        address = (f"--address={options.host}", f"--port={ports['flower']}")
        yield spec(
            name="flower",
            argv=[*CELERY, "flower", *address, "--enable_events=False", "--persistent=False"],
            env={**env, "FLOWER_BASIC_AUTH": login},
            order=3,
        )


def stand_back() -> dict[str, str]:
    """Environment of workers that share their machine with all the rest: on busy processors handlers go last."""
    name = "CARILLON_POOL_NICENESS"
    return {name: os.environ.get(name) or SHARED_POOL_NICENESS}


def _command(*arguments: str) -> str:
    """The standard output of a management command that runs in this process. It leaves no connection open.

    Another process would take longer to import Django than the command takes.
    """
    printed = io.StringIO()
    try:
        call_command(*arguments, stdout=printed)
    except (CommandError, DatabaseError) as error:
        raise UpError(f"manage.py {arguments[0]} failed: {error}") from error
    finally:
        connections.close_all()
    return printed.getvalue()


def _free_port(host: str, port: int, *, option: str) -> int:
    """``port`` if it can be bound, or any free one for 0. Raises ``UpError`` when it stays taken."""
    deadline = time.monotonic() + PORT_PATIENCE.total_seconds()
    while True:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server((host, port), family=family) as server:
                return int(server.getsockname()[1])
        except OSError as error:
            if time.monotonic() > deadline:
                raise UpError(
                    f"Port {port} on {host} cannot be used ({error.strerror or error}): "
                    f'give another, `manage.py up {option} {port + 1}` or `make up ARGS="{option} {port + 1}"`; '
                    "0 is any free one."
                ) from error
        time.sleep(0.2)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host

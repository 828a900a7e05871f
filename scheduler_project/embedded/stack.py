"""Embedded servers as a context: start the missing ones, stop them at the end.

``DATABASE_URL`` and ``REDIS_URL`` in the environment name the servers that exist already. With a ``BROKER_URL`` of
RabbitMQ no Redis is needed. The other servers are started in the data directory, or adopted there when an earlier
owner was killed. One process owns a data directory at a time. It holds a file lock, which the kernel drops at any end
of the owner. Inside the context SIGTERM raises ``KeyboardInterrupt`` like SIGINT, unless the program handles it.
So the servers are stopped in order either way.
"""

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from scheduler_project.embedded import paths
from scheduler_project.embedded.postgres import EmbeddedPostgres
from scheduler_project.embedded.redis import EmbeddedRedis
from scheduler_project.embedded.server import EmbeddedError, EmbeddedServer
from scheduler_project.environment import without_redis


class EmbeddedStack:
    """Postgres and Redis of one data directory, for the length of a ``with`` block.

    ``ephemeral`` (tests, benchmarks that ask for it): no fsync, and the servers die with this process, even by SIGKILL.
    ``postgres``: the class that starts a Postgres.

    Raises ``EmbeddedError`` when the directory is in use or a server cannot start, ``PermissionError`` when
    the directory is another user's.
    """

    def __init__(
        self, *, data_dir: Path, ephemeral: bool = False, postgres: type[EmbeddedPostgres] = EmbeddedPostgres
    ) -> None:
        self.data_dir = data_dir.expanduser().resolve()
        self.servers: list[EmbeddedServer] = []
        if not os.environ.get("DATABASE_URL"):
            self.servers.append(postgres(data_dir=self.data_dir, ephemeral=ephemeral))
        redis, broker = os.environ.get("REDIS_URL"), os.environ.get("BROKER_URL")
        if not redis and not without_redis(redis_url=redis, broker_url=broker):
            self.servers.append(EmbeddedRedis(data_dir=self.data_dir, ephemeral=ephemeral))
        self._exits = ExitStack()

    @property
    def database_url(self) -> str:
        return os.environ.get("DATABASE_URL") or paths.embedded_database_url(self.data_dir)

    @property
    def redis_url(self) -> str:
        return os.environ.get("REDIS_URL") or paths.embedded_redis_url(self.data_dir)

    @property
    def pids(self) -> dict[str, int]:
        """Main process of each server that is ours, by name."""
        return {server.name: pid for server in self.servers if (pid := server.pid) is not None}

    def __enter__(self) -> Self:
        with ExitStack() as started:
            paths.ensure_data_dir(self.data_dir)
            started.enter_context(_sole_owner(self.data_dir / "lock"))
            started.enter_context(_orderly_sigterm())
            if link := paths.reach_sockets(self.data_dir):
                started.callback(link.unlink, missing_ok=True)
            for server in self.servers:
                started.callback(server.stop)
                server.start()
            self._exits = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _deaf_to_signals():
            self._exits.close()


@contextmanager
def _sole_owner(path: Path) -> Iterator[None]:
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise EmbeddedError(
                f"{path.parent} is in use by process {lock.read().strip() or 'unknown'}: stop it "
                "(Ctrl-C, or SIGTERM), or give another --data-dir (CARILLON_DATA_DIR)."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def _orderly_sigterm() -> Iterator[None]:
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _deaf_to_signals() -> Iterator[None]:
    """A stop is bounded in time; a second Ctrl-C must not interrupt it half-way."""
    if not _in_main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()

"""Two at once, for real: each party has a thread and a connection of its own."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from stage.waiting import wait_until

Action = Callable[[], Any]


def at_once(*actions: Action) -> list[Any]:
    """Start all actions at the same moment, each on its own connection. Returns their results in order."""
    barrier = threading.Barrier(len(actions))

    def run(action: Action) -> Any:
        connection.ensure_connection()
        barrier.wait(timeout=10)
        try:
            return action()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(timeout=30) for future in [pool.submit(run, action) for action in actions]]


class Rival:
    """A second connection. A test orders its steps one by one; ``start`` does not wait for an answer."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.pid = self.do(self._backend)

    @staticmethod
    def _backend() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])

    def do(self, action: Action) -> Any:
        return self._pool.submit(action).result(timeout=10)

    def start(self, action: Action) -> Callable[[], Any]:
        """Begin a step; the returned call waits for its result."""
        self._started = future = self._pool.submit(action)
        return lambda: future.result(timeout=10)

    def wait_until_blocked(self) -> None:
        """Return once the rival's statement waits for a lock."""
        wait_until(self._is_blocked, what="the rival waits for a lock")

    def wait_until_blocked_or_done(self) -> None:
        """Return once the step that was started last waits for a lock, or has ended."""
        wait_until(lambda: self._started.done() or self._is_blocked(), what="the rival waits or is done")

    def _is_blocked(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [self.pid])
            return bool(cursor.fetchone()[0])

    def close(self) -> None:
        self.do(lambda: connection.close())
        self._pool.shutdown()


@pytest.fixture
def rival(transactional_db: None) -> Iterator[Rival]:
    other = Rival()
    yield other
    other.close()

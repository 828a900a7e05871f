"""Wait for a fact about the outside world instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")


def wait_until(fact: Callable[[], T], *, within_seconds: float = 15) -> T:
    """The first truthy answer of ``fact``; fails the test when there is none in time."""
    deadline = time.monotonic() + within_seconds
    while not (answer := fact()):
        assert time.monotonic() < deadline, f"not true within {within_seconds} s: {fact}"
        time.sleep(0.02)
    return answer


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie that PID 1 has yet to collect has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True

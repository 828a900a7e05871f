"""Buckets and tenants that one test uses alone, and functions that wait, measure and spend."""

import random
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from jobs.limits import Bucket, Buckets, Rates

NOBODY = "redis://127.0.0.1:1/0"
#: Seconds that a busy machine adds to a wait. One by one, 300 answers would take at least 6 s.
SLACK = 2.0


def new_bucket(*, per_second: float = 0.01, burst: int = 5) -> Bucket:
    return Bucket(f"test:{uuid4()}", per_second, burst)


def new_tenant(*, per_second: int | None = 1, burst: int | None = 10) -> SimpleNamespace:
    return SimpleNamespace(id=random.randrange(10**9, 10**15), rate_per_second=per_second, rate_burst=burst)


def settled(buckets: Buckets, *, seconds: float = 5.0) -> None:
    """Wait until Redis has been told everything."""
    deadline = time.monotonic() + seconds
    while buckets._dirty or buckets._requests or buckets._began_at is not None:
        assert time.monotonic() < deadline, "not told to Redis"
        time.sleep(0.005)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = call()
    return time.monotonic() - began, result


def spend_all_there_is(tenant: Any, *dispatchers: Rates, seconds: float) -> tuple[float, int]:
    """Dispatch for ``seconds`` as beats do. Returns the seconds it took and the number of tokens spent."""
    began, spent = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        for rates in dispatchers:
            room = rates.rooms([tenant])[tenant.id]
            rates.spend({tenant.id: room})
            spent += room
        time.sleep(0.02)
    return time.monotonic() - began, spent

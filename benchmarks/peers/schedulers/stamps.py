"""The work of a scheduler's entries: they stamp their start into the stage's Redis, by the machine's clock."""

import os
import time
from functools import cache
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:  # a peer's process must import nothing of ours
    from benchmarks.stage import Stage

KEY = "bench-stamps"


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(os.environ["BENCH_REDIS"])


def stamp(entry: str) -> None:
    """Record that ``entry`` starts now."""
    _redis().rpush(KEY, f"{entry} {time.time():.6f}")


def count(stage: "Stage") -> int:
    """How many executions have started so far."""
    return int(stage.redis.llen(KEY))


def latest(stage: "Stage") -> float:
    """When the last execution started (Unix seconds); there must be one."""
    return max(at for starts in by_entry(stage).values() for at in starts)


def by_entry(stage: "Stage") -> dict[str, list[float]]:
    """When each entry's executions started, in order (Unix seconds)."""
    found: dict[str, list[float]] = {}
    for line in stage.redis.lrange(KEY, 0, -1):
        entry, at = line.decode().split()
        found.setdefault(entry, []).append(float(at))
    return {entry: sorted(starts) for entry, starts in found.items()}

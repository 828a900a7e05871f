"""The policies a job may choose (DESIGN §7, §9) and the one decision made after a failed attempt.

Pure: the worker and the reaper both ask ``after_failure``, so a handler that raised and a worker that died
are judged by the same rule. It keeps true that a trigger is retried only within its budget and that an
``at_most_once`` trigger is never started twice.
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum

from jobs.core.backoff import RetryPolicy, delay_for
from jobs.core.errors import InvalidInput

#: Workers that may die under one trigger before it is taken for the cause (DESIGN §7).
POISON_CRASHES = 3


class OverlapPolicy(StrEnum):
    """What happens when a trigger is due and another of the same job is unfinished."""

    SKIP = "skip"
    QUEUE = "queue"
    COLLAPSE = "collapse"
    ALLOW = "allow"
    REPLACE = "replace"


class MisfirePolicy(StrEnum):
    """What happens to firings that could not be dispatched within the grace."""

    FIRE_ONCE = "fire_once"
    SKIP = "skip"
    FIRE_ALL = "fire_all"
    BACKFILL = "backfill"


class Delivery(StrEnum):
    """How often a trigger may be started when a worker is lost."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    EXACTLY_ONCE = "exactly_once"


class CronDialect(StrEnum):
    """How a cron expression is written; ``quartz`` has seconds first and counts Sunday as 1."""

    UNIX = "unix"
    QUARTZ = "quartz"


class DstPolicy(StrEnum):
    """What a fixed schedule does where clocks change; wildcard schedules follow elapsed time under each."""

    VIXIE = "vixie"
    SKIP = "skip"
    BOTH = "both"


class Priority(IntEnum):
    """Stored as a number so that SQL can sort by it; the lower goes first."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 2
    LOW = 3

    @property
    def label(self) -> str:
        """The lower-case word of the API."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Priority":
        """The priority the API's word names. Raises ``InvalidInput`` under ``priority``."""
        for priority in cls:
            if priority.label == label:
                return priority
        words = ", ".join(priority.label for priority in cls)
        raise InvalidInput({"priority": f"{label!a:.40} is not a priority; use one of {words}."})


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again once ``delay`` has passed."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Bury:
    """Give up. ``reason`` is one of ``states.DEAD_REASONS``."""

    reason: str


def after_failure(
    policy: RetryPolicy,
    *,
    permanent: bool,
    crashed: bool,
    attempts: int,
    crash_count: int,
    elapsed: timedelta,
    delivery: Delivery,
    retry_after: timedelta | None,
    rng: random.Random,
) -> Retry | Bury:
    """What becomes of a trigger whose attempt has just failed (DESIGN §7).

    ``permanent``: the handler said that no retry can help. ``crashed``: the worker died or its lease ran out.
    ``attempts``: attempts used in this budget, the failed one included. ``crash_count``: crashes, this one
    included. ``elapsed``: time since the budget began. ``retry_after``: what the target asked for. ``rng``
    draws the jitter.
    """
    if permanent:
        return Bury("permanent")
    if delivery == Delivery.AT_MOST_ONCE:
        return Bury("lost" if crashed else "exhausted")
    if crashed and crash_count >= POISON_CRASHES:
        return Bury("poison")
    if attempts >= policy.max_attempts:
        return Bury("exhausted")
    # The lease has already made a lost attempt wait, and the target is not known to be at fault.
    delay = timedelta() if crashed else delay_for(policy, failures=attempts, rng=rng, retry_after=retry_after)
    if policy.max_elapsed is not None and elapsed + delay > policy.max_elapsed:
        return Bury("exhausted")
    return Retry(delay)

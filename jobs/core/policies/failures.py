"""Decisions after an attempt failed, after a worker died, and on a message that no worker claims (DESIGN §7).

The worker and the reaper both ask ``after_failure``, so one rule decides after a handler raised and after a worker
died. By this rule a trigger is retried only within its budget, and an ``at_most_once`` trigger is never started twice.
"""

import random
from dataclasses import dataclass
from datetime import timedelta

from jobs.core.backoff import RetryPolicy, delay_for
from jobs.core.policies.words import Delivery

#: Workers that may die under one trigger before it is taken for the cause (DESIGN §7).
POISON_CRASHES = 3
#: The deadline for claiming a message doubles at most this many times.
MAX_DOUBLINGS = 6


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
    """Decide on a trigger whose attempt has just failed (DESIGN §7).

    ``permanent``: the handler said that no retry can help. ``crashed``: the worker died or its lease ran out.
    ``attempts``: attempts used in this budget, the failed one included. ``crash_count``: crashes, this one
    included. ``elapsed``: time since the budget began. ``retry_after``: the wait that the target asked for.
    ``rng`` draws the jitter.
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


@dataclass(frozen=True, slots=True)
class Cancel:
    """Do not try again: its cancellation was requested while it ran."""


def is_charged(*, claimed_with: int, stopping: bool) -> bool:
    """Whether a trigger whose worker died is charged for the crash (DESIGN §7): it was alone, and the death unexpected.

    ``claimed_with``: how many others its worker had claimed with it. ``stopping``: its worker had been told to stop.
    """
    return claimed_with == 0 and not stopping


def after_crash(
    policy: RetryPolicy,
    *,
    charged: bool,
    attempts: int,
    crash_count: int,
    elapsed: timedelta,
    delivery: Delivery,
    cancel_requested: bool,
    rng: random.Random,
) -> Retry | Bury | Cancel:
    """Decide on a trigger whose worker died while it ran. Arguments as of ``after_failure``, without this crash.

    ``charged``: as ``is_charged`` says. Uncharged, the crash counts neither as a crash nor as an attempt.
    """
    if cancel_requested:
        return Cancel()
    return after_failure(
        policy,
        permanent=False,
        crashed=True,
        attempts=attempts if charged else attempts - 1,
        crash_count=crash_count + charged,
        elapsed=elapsed,
        delivery=delivery,
        retry_after=None,
        rng=rng,
    )


def claim_deadline(first: timedelta, *, fence: int, attempt_count: int) -> timedelta:
    """How long a queued trigger may wait for a worker before its message is taken for lost (DESIGN §6.4).

    ``first``: the deadline of the first dispatch. From the second unclaimed dispatch on (of ``fence - attempt_count``),
    each one doubles the deadline, up to ``MAX_DOUBLINGS`` times. So a queue that is only slow is not flooded with
    copies. ``reap_queued`` of reap.sql states the same rule for whole sets; a test holds the two together.
    """
    doublings = min(max(fence - attempt_count - 2, 0), MAX_DOUBLINGS)
    return first * (1 << doublings)

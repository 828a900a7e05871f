"""How long to wait before a trigger is tried again (DESIGN §7): the retry policy of a job and its delays.

``jobs.shapes.retry`` says which policies a caller may write. Delays always lie within the policy's bounds plus jitter.
They are never shorter than a target's ``Retry-After``, up to a day.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from operator import index
from typing import Any

from jobs.core.errors import InvalidInput


class Backoff(StrEnum):
    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    DELAYS = "delays"


class Jitter(StrEnum):
    """``proportional``: up to a fifth of the delay, at most 300 s, on top; ``full``: anywhere from 0 to the
    delay.
    """

    PROPORTIONAL = "proportional"
    FULL = "full"
    NONE = "none"


MAX_RETRY_AFTER = timedelta(days=1)
_LARGEST_JITTER = timedelta(seconds=300)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often a failed trigger is tried again; by default after 30 s, 2, 10, 30 min and 2 h."""

    max_attempts: int = 5
    backoff: Backoff = Backoff.DELAYS
    initial_delay: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    max_delay: timedelta = timedelta(hours=2)
    delays: tuple[timedelta, ...] = (
        timedelta(seconds=30),
        timedelta(minutes=2),
        timedelta(minutes=10),
        timedelta(minutes=30),
        timedelta(hours=2),
    )
    jitter: Jitter = Jitter.PROPORTIONAL
    max_elapsed: timedelta | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RetryPolicy":
        """The policy that ``jobs.shapes.retry`` checked and stored; fields left out keep their defaults.

        Raises ``InvalidInput`` when it cannot be read, because it may have been written past the API.
        """
        try:
            return cls(
                **{
                    attribute: read(stored[name])
                    for name, (attribute, read) in _STORED.items()
                    if name in stored
                }
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput({"": f"Is not a retry policy: {error}."}) from None


def _duration(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


#: The attribute of each stored field, and how it is read.
_STORED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "max_attempts": ("max_attempts", index),
    "backoff": ("backoff", Backoff),
    "initial_delay_seconds": ("initial_delay", _duration),
    "factor": ("factor", float),
    "max_delay_seconds": ("max_delay", _duration),
    "delays_seconds": ("delays", lambda delays: tuple(map(_duration, delays))),
    "jitter": ("jitter", Jitter),
    "max_elapsed_seconds": ("max_elapsed", _duration),
}


def delay_for(
    policy: RetryPolicy, *, failures: int, rng: random.Random, retry_after: timedelta | None = None
) -> timedelta:
    """The wait before the next attempt, after ``failures`` (from 1) failed ones in this budget.

    ``retry_after``: the wait that the target asked for. The result is never shorter, but at most a day of it is
    honoured.
    """
    floor = min(retry_after or timedelta(0), MAX_RETRY_AFTER)
    delay = max(_nominal_delay(policy, failures), floor)
    if policy.jitter == Jitter.PROPORTIONAL:
        delay += rng.uniform(0, 1) * min(delay / 5, _LARGEST_JITTER)
    elif policy.jitter == Jitter.FULL:
        delay *= rng.uniform(0, 1)
    return max(delay, floor)


def ladder(policy: RetryPolicy) -> list[timedelta]:
    """The waits before each further attempt of a firing that keeps failing, without jitter and ``max_elapsed``."""
    return [_nominal_delay(policy, failures) for failures in range(1, policy.max_attempts)]


def _nominal_delay(policy: RetryPolicy, failures: int) -> timedelta:
    """The delay before jitter. A list of delays that is too short repeats its last."""
    if policy.backoff == Backoff.DELAYS:
        return policy.delays[min(failures, len(policy.delays)) - 1]
    factor = policy.factor if policy.backoff == Backoff.EXPONENTIAL else 1.0
    # Compare as floats first: a timedelta cannot hold a minute that was doubled 99 times.
    grown_seconds = policy.initial_delay.total_seconds() * factor ** (failures - 1)
    return timedelta(seconds=min(grown_seconds, policy.max_delay.total_seconds()))

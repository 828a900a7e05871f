"""How long to wait before a trigger is tried again (DESIGN §7): the retry policy of a job and its delays.

A policy is read from the API's JSON once, with every bound checked, and is immutable after that; ``to_json``
gives back what ``from_json`` accepts. Delays always lie within the policy's bounds plus jitter, and never
undercut a target's ``Retry-After`` up to a day. Bad input raises ``InvalidInput`` naming every wrong field at
once.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

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


LONGEST_RETRY_AFTER = timedelta(days=1)
_LARGEST_JITTER = timedelta(seconds=300)
LARGEST_FACTOR = 100
MOST_ATTEMPTS = 100
SHORTEST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 7 * 86_400
LONGEST_ELAPSED_SECONDS = 366 * 86_400

#: Which kinds of back-off each field acts on; a field that would do nothing is refused, for it was meant to
#: do something.
_ACTS_ON = {
    "initial_delay_seconds": (Backoff.FIXED, Backoff.EXPONENTIAL),
    "max_delay_seconds": (Backoff.FIXED, Backoff.EXPONENTIAL),
    "factor": (Backoff.EXPONENTIAL,),
    "delays_seconds": (Backoff.DELAYS,),
}
_FIELDS = ("max_attempts", "backoff", *_ACTS_ON, "jitter", "max_elapsed_seconds")


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
    def from_json(cls, document: Mapping[str, object]) -> "RetryPolicy":
        """The policy a JSON object describes; fields left out keep their defaults.

        Without ``backoff`` the kind follows from the other fields: ``exponential`` if they describe a growing
        or steady delay, else ``delays``. Raises ``InvalidInput`` with field paths such as
        ``delays_seconds[2]``.
        """
        return _Reader(document).policy()

    def to_json(self) -> dict[str, object]:
        """The JSON object ``from_json`` turns back into this policy: the fields that act on its kind, in
        seconds.
        """
        document: dict[str, object] = {"max_attempts": self.max_attempts, "backoff": self.backoff.value}
        if self.backoff == Backoff.DELAYS:
            document["delays_seconds"] = [_seconds(delay) for delay in self.delays]
        else:
            document["initial_delay_seconds"] = _seconds(self.initial_delay)
            document["max_delay_seconds"] = _seconds(self.max_delay)
        if self.backoff == Backoff.EXPONENTIAL:
            document["factor"] = self.factor
        document["jitter"] = self.jitter.value
        if self.max_elapsed is not None:
            document["max_elapsed_seconds"] = _seconds(self.max_elapsed)
        return document


def delay_for(
    policy: RetryPolicy, *, failures: int, rng: random.Random, retry_after: timedelta | None = None
) -> timedelta:
    """The wait before the next attempt, after ``failures`` (from 1) failed ones in this budget.

    ``retry_after`` is what the target asked for: the wait is never shorter, but no more than a day of it is
    honoured.
    """
    floor = min(retry_after or timedelta(0), LONGEST_RETRY_AFTER)
    delay = max(_nominal_delay(policy, failures), floor)
    if policy.jitter == Jitter.PROPORTIONAL:
        delay += rng.uniform(0, 1) * min(delay / 5, _LARGEST_JITTER)
    elif policy.jitter == Jitter.FULL:
        delay *= rng.uniform(0, 1)
    return max(delay, floor)


def _nominal_delay(policy: RetryPolicy, failures: int) -> timedelta:
    """The delay before jitter. A list of delays that is too short goes on with its last."""
    if policy.backoff == Backoff.DELAYS:
        return policy.delays[min(failures, len(policy.delays)) - 1]
    factor = policy.factor if policy.backoff == Backoff.EXPONENTIAL else 1.0
    # Compared as floats first: a timedelta cannot hold what 99 doublings make of a minute.
    grown_seconds = policy.initial_delay.total_seconds() * factor ** (failures - 1)
    return timedelta(seconds=min(grown_seconds, policy.max_delay.total_seconds()))


def _seconds(duration: timedelta) -> int | float:
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


class _Reader:
    """Reads one JSON object field by field, gathering every complaint before it raises."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self.document = document
        self.errors: dict[str, str] = {}

    def policy(self) -> RetryPolicy:
        if not isinstance(self.document, Mapping):
            raise InvalidInput({"": "A retry policy is a JSON object."})
        default = RetryPolicy()
        for name in self.document:
            if name not in _FIELDS:
                self.errors[str(name)[:40]] = f"Unknown field; the fields are {', '.join(_FIELDS)}."
        backoff = self.kind()
        initial_delay = self.delay("initial_delay_seconds") or default.initial_delay
        policy = RetryPolicy(
            max_attempts=int(
                self.number("max_attempts", 1, MOST_ATTEMPTS, whole=True) or default.max_attempts
            ),
            backoff=backoff,
            initial_delay=initial_delay,
            factor=self.number("factor", 1, LARGEST_FACTOR) or default.factor,
            max_delay=self.delay("max_delay_seconds") or max(default.max_delay, initial_delay),
            delays=self.delays() or default.delays,
            jitter=Jitter(self.word("jitter", Jitter) or default.jitter),
            max_elapsed=self.delay("max_elapsed_seconds", longest=LONGEST_ELAPSED_SECONDS),
        )
        if policy.max_delay < policy.initial_delay:
            self.errors.setdefault("max_delay_seconds", "Must not be shorter than initial_delay_seconds.")
        if self.errors:
            raise InvalidInput(self.errors)
        return policy

    def kind(self) -> Backoff:
        """The kind of back-off, and a complaint for each field that does nothing under it."""
        given = self.word("backoff", Backoff)
        if given is None:
            grows = {"initial_delay_seconds", "factor", "max_delay_seconds"} & self.document.keys()
            given = Backoff.EXPONENTIAL if grows else Backoff.DELAYS
        backoff = Backoff(given)
        for name, kinds in _ACTS_ON.items():
            if name in self.document and backoff not in kinds and "backoff" not in self.errors:
                right = " or ".join(f'"{kind}"' for kind in kinds)
                self.errors[name] = (
                    f'Does nothing with backoff "{backoff}"; leave it out or set backoff to {right}.'
                )
        return backoff

    def word(self, name: str, choices: type[StrEnum]) -> str | None:
        """The given word, or None when it is absent or wrong."""
        if name not in self.document:
            return None
        value = self.document[name]
        if isinstance(value, str) and value in list(choices):
            return value
        self.errors[name] = f"Must be one of {', '.join(choices)}."
        return None

    def number(self, name: str, lowest: float, highest: float, *, whole: bool = False) -> float | None:
        return (
            self.bounded(name, self.document[name], lowest, highest, whole) if name in self.document else None
        )

    def bounded(
        self, path: str, value: object, lowest: float, highest: float, whole: bool = False
    ) -> float | None:
        # A bool is an int to Python, and NaN is neither below nor above any bound.
        is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if is_number and lowest <= value <= highest and math.isfinite(value):  # type: ignore[operator,arg-type]
            return value  # type: ignore[return-value]
        kind = "a whole number" if whole else "a number"
        self.errors.setdefault(path, f"Must be {kind} from {lowest:g} to {highest:g}.")
        return None

    def delay(self, name: str, *, longest: float = LONGEST_DELAY_SECONDS) -> timedelta | None:
        seconds = self.number(name, SHORTEST_DELAY_SECONDS, longest)
        return None if seconds is None else timedelta(seconds=seconds)

    def delays(self) -> tuple[timedelta, ...]:
        """``delays_seconds``, or an empty tuple when it is absent or wrong."""
        name = "delays_seconds"
        if name not in self.document:
            return ()
        values = self.document[name]
        if not isinstance(values, list) or not 1 <= len(values) <= MOST_ATTEMPTS:
            self.errors.setdefault(name, f"Must be a list of 1 to {MOST_ATTEMPTS} numbers.")
            return ()
        read = [
            self.bounded(f"{name}[{index}]", value, SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS)
            for index, value in enumerate(values)
        ]
        return tuple(timedelta(seconds=seconds) for seconds in read if seconds is not None)

"""The line about one account, its answer, and the wire that carries many lines to Redis or Postgres."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple, Protocol

from jobs.limits.buckets import Account

#: An exchange is given up after this long. Callers have long gone on by then.
TIMEOUT_SECONDS = 5.0
#: How much overspending is remembered.
DEBT_SECONDS = 5.0


class Answer(NamedTuple):
    """The answer for a bucket: tokens held for this process, and seconds until the bucket is full.

    ``strange``: something else stood in the bucket's place, and it counted as empty.
    """

    held: int
    full_in: float
    strange: bool = False


@dataclass(eq=False, slots=True)
class Request:
    """Accounts to exchange, with how many tokens of each to hold. ``held``: the tokens held, once ``answered``.

    ``abandoned``: no caller waits for the answer any more, and the tokens it holds are given back.
    """

    wanted: Mapping[Account, int]
    held: dict[Account, int] = field(default_factory=dict)
    done: Event = field(default_factory=Event)
    answered: bool = False
    abandoned: bool = False


class Line:
    """One account in one exchange. Made, settled and taken back under the lock of the account's ``Buckets``."""

    def __init__(self, account: Account, requests: Sequence[Request], now: float) -> None:
        self.account = account
        self._requests = requests
        self._bucket = account.bucket
        self._sent_at = now
        self._full_at = account.full_at
        self._held = account.held
        self._spent, self._since, self._returned = account.spent, account.spent_since, account.returned
        account.spent = account.returned = 0

    @property
    def values(self) -> tuple[float, ...]:
        """The bucket's values: seconds a token takes, burst, held tokens given back, tokens spent, seconds since the
        first of these was spent, tokens to hold.
        """
        age = max(0.0, self._sent_at - self._since) if self._spent else 0.0
        wanted = sum(request.wanted[self.account] for request in self._requests)
        return self._bucket.interval, self._bucket.burst, self._returned, self._spent, age, wanted

    def settle(self, held: int, full_in: float, now: float) -> None:
        """Take in the answer. The requests that asked first are served first."""
        account = self.account
        own = (self._held + held) * self._bucket.interval
        account.learn(sent_at=self._sent_at, full_at_when_sent=self._full_at, full_in=max(0.0, full_in - own))
        account.held += held
        for request in self._requests:
            share = min(held, request.wanted[account])
            held -= share
            if request.abandoned:
                account.give_back(share)
            else:
                request.held[account] = share

    def take_back(self) -> None:
        """It is unknown whether the line arrived. Spent tokens are reported again, so an error is on the slow side."""
        if self._spent:
            account = self.account
            account.spent_since = min(self._since, account.spent_since) if account.spent else self._since
            account.spent += self._spent
            account.returned += min(self._returned, self._spent)


class Wire(Protocol):
    """The way to the common count of all processes: Redis, or Postgres where there is no Redis. For one thread."""

    #: The errors that ``call`` raises when there is no answer.
    failures: tuple[type[Exception], ...]

    def call(self, lines: Sequence[Line]) -> list[Answer]:
        """One answer per line, all of them at one moment as far as possible. Waits for ``TIMEOUT_SECONDS``; never tries
        twice.
        """
        ...

    def refused(self, failure: Exception) -> bool:
        """Whether the other side answers and refuses, rather than being away."""
        ...

    def rest(self) -> None:
        """There is nothing to exchange for a while."""
        ...

    def failure(self, *, patience_seconds: float) -> Exception | None:
        """Why the other side does not answer; None when it does. May be called from any thread."""
        ...

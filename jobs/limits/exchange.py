"""What is said to Redis about one account, what is answered, and the call that carries many of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from jobs.limits.buckets import Account

#: Before the names of the buckets in Redis. No queue's name may begin with a brace, even if granted
#: (``builtin.queues``), so no message can be put in a bucket's place.
PREFIX = "{carillon}:rate:"
#: When an exchange is given up. Callers have long gone on by then.
TIMEOUT_SECONDS = 5.0
#: How much overspending is remembered.
DEBT_SECONDS = 5.0
#: Buckets that one call of the script looks at: some 2 ms of Redis.
_SLICE = 500
_SCRIPT = Path(__file__).with_name("exchange.lua").read_text()


class Answer(NamedTuple):
    """What Redis says of a bucket: tokens held for us, and seconds until it is full.

    ``strange``: something else stood in its place, and it counted as empty.
    """

    held: int
    full_in: float
    strange: bool = False


@dataclass(eq=False, slots=True)
class Request:
    """Accounts to be exchanged, with how many tokens of each are to be held: then ``held``, once ``answered``.

    ``abandoned``: nobody waits for the answer any more, and what it holds is given back.
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
        """What the script wants to know of a bucket."""
        age = max(0.0, self._sent_at - self._since) if self._spent else 0.0
        wanted = sum(request.wanted[self.account] for request in self._requests)
        return self._bucket.interval, self._bucket.burst, self._returned, self._spent, age, wanted

    def settle(self, held: int, full_in: float, now: float) -> None:
        """Redis answered. Those who asked first are served first."""
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
        """Nobody knows whether Redis heard it: what was spent is said again, so that an error is on the slow side."""
        if self._spent:
            account = self.account
            account.spent_since = min(self._since, account.spent_since) if account.spent else self._since
            account.spent += self._spent
            account.returned += min(self._returned, self._spent)


class Wire:
    """The connection. It is made at first use, waits ``TIMEOUT_SECONDS`` for each answer, and never tries twice."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis: Redis | None = None

    def call(self, lines: Sequence[Line]) -> list[Answer]:
        """One pipeline; an answer a line.

        Raises ``RedisError``, ``OSError``, or ``ValueError`` when the URL names no Redis.
        """
        if self._redis is None:
            self._redis = _redis(self._url, TIMEOUT_SECONDS)
        pipeline = self._redis.pipeline(transaction=False)
        for start in range(0, len(lines), _SLICE):
            some = lines[start : start + _SLICE]
            keys = [PREFIX + line.account.bucket.key for line in some]
            values = [value for line in some for value in line.values]
            pipeline.eval(_SCRIPT, len(keys), *keys, DEBT_SECONDS, *values)
        flat = [value for answer in pipeline.execute() for value in answer]
        return [
            Answer(int(held), float(full_in), bool(strange))
            for held, full_in, strange in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]


def failure_of(url: str, *, patience_seconds: float) -> Exception | None:
    """Why no Redis answers there; None when it does."""
    try:
        with _redis(url, patience_seconds) as redis:
            redis.ping()
    except (RedisError, OSError, ValueError) as error:
        return error
    return None


def _redis(url: str, patience_seconds: float) -> Redis:
    options: dict[str, Any] = {
        "socket_timeout": patience_seconds,
        "socket_connect_timeout": patience_seconds,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }
    return Redis.from_url(url, **options)

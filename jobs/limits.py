"""Rate limits that all beats share: token buckets in Redis, by Redis' clock (DESIGN §8).

GCRA, which is a token bucket that keeps one number. A limit protects others from load; it must not stop the work when
Redis is away: then everything is let through, counted and said (*fail open*), and Redis is asked again a second later.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from throttled import RateLimiterType, Throttled
from throttled.exceptions import StoreUnavailableError
from throttled.rate_limiter import Quota, per_duration
from throttled.store import RedisStore

from jobs.telemetry import get_logger

log = get_logger()
T = TypeVar("T")
#: A dispatch waits for an answer while it holds its tenants.
TIMEOUT_SECONDS = 0.25
RETRY_AFTER_SECONDS = 1.0
#: Over this time a rate is a whole number, down to one firing in a thousand seconds.
_PERIOD = timedelta(seconds=1000)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A limit: ``per_second`` firings on average (at least 0.001), ``burst`` at once. ``key`` names whose it is."""

    key: str
    per_second: float
    burst: int


class Grant(NamedTuple):
    """``granted`` of what was wanted; the next one after ``retry_after_seconds``."""

    granted: int
    retry_after_seconds: float


class Standing(NamedTuple):
    """How a bucket stands after one more was counted: ``remaining`` at once, and full after ``reset_after_seconds``."""

    limited: bool
    remaining: int
    reset_after_seconds: float
    retry_after_seconds: float


def tenant_bucket(tenant_id: int, per_second: int | None, burst: int | None) -> Bucket | None:
    """A tenant's limit by its quotas; None when it has none."""
    return Bucket(f"tenant:{tenant_id}", per_second, burst or per_second) if per_second else None


def target_bucket(target: str) -> Bucket | None:
    """The limit of a webhook's host by the settings, for all tenants together; None when it has none."""
    engine = settings.CARILLON
    rate = engine.target_rates.get(target, engine.target_rate_per_second)
    return Bucket(f"target:{target}", rate, max(1, math.ceil(rate))) if target and rate else None


class Buckets:
    """The buckets as one process sees them. ``let_through`` counts what passed while Redis could not be asked."""

    def __init__(self, *, url: str) -> None:
        self._store = RedisStore(
            server=url,
            options={
                "SOCKET_TIMEOUT": TIMEOUT_SECONDS,
                "SOCKET_CONNECT_TIMEOUT": TIMEOUT_SECONDS,
                "CONNECTION_POOL_KWARGS": {"retry": Retry(NoBackoff(), 0)},
                "REUSE_CONNECTION": False,
            },
        )
        self._limiters: dict[Bucket, Throttled] = {}
        self._away_until = 0.0
        self.let_through = 0

    def available(self, bucket: Bucket) -> int | None:
        """How many firings the bucket would grant now; None while Redis cannot be asked."""
        state = self._ask(lambda: self._limiter(bucket).peek(bucket.key))
        return None if state is None else int(state.remaining)

    def take(self, bucket: Bucket, wanted: int) -> Grant:
        """Take up to ``wanted`` tokens, all of them while Redis cannot be asked. What is taken is not given back."""
        grant = self._ask(lambda: self._take(bucket, wanted))
        if grant is None:
            self.let_through += wanted
            return Grant(wanted, 0.0)
        return grant

    def count(self, bucket: Bucket) -> Standing | None:
        """Take one token if there is one; None while Redis cannot be asked."""
        return self._ask(lambda: self._count(bucket))

    def _count(self, bucket: Bucket) -> Standing:
        answer = self._limiter(bucket).limit(bucket.key)
        state = answer.state
        return Standing(answer.limited, int(state.remaining), state.reset_after, state.retry_after)

    def _take(self, bucket: Bucket, wanted: int) -> Grant:
        limiter = self._limiter(bucket)
        wanted = min(wanted, bucket.burst)
        answer = limiter.limit(bucket.key, cost=wanted)
        if answer.limited and 0 < (rest := int(answer.state.remaining)) < wanted:
            wanted, answer = rest, limiter.limit(bucket.key, cost=rest)
        next_one = (
            max(1 / bucket.per_second, answer.state.retry_after) if answer.limited else 1 / bucket.per_second
        )
        return Grant(0 if answer.limited else wanted, next_one)

    def _limiter(self, bucket: Bucket) -> Throttled:
        limiter = self._limiters.get(bucket)
        if limiter is None:
            limiter = self._limiters[bucket] = Throttled(
                using=RateLimiterType.GCRA.value, quota=_quota(bucket), store=self._store
            )
        return limiter

    def _ask(self, question: Callable[[], T]) -> T | None:
        if time.monotonic() < self._away_until:
            return None
        try:
            return question()
        except (StoreUnavailableError, RedisError, OSError) as error:
            self._away_until = time.monotonic() + RETRY_AFTER_SECONDS
            log.warning("rate limits away", error=str(error), let_through=self.let_through)
            return None


def _quota(bucket: Bucket) -> Quota:
    return per_duration(_PERIOD, round(bucket.per_second * _PERIOD.total_seconds()), bucket.burst)


class Rates:
    """What dispatch asks of the rate limits (``jobs.store.dispatch``).

    Keeps until when each target is spoken for, so that of a crowd each is sent to wait for its own turn, once. Another
    beat has its own list; what is shown to dispatch too early only waits again.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._spoken_for: dict[str, float] = {}

    def room(self, tenant: Any) -> int | None:
        """How many triggers of the tenant (its id and rates) may go now; None: as many as there are."""
        bucket = tenant_bucket(tenant.id, tenant.rate_per_second, tenant.rate_burst)
        return self._buckets.available(bucket) if bucket else None

    def spend(self, tenant: Any, count: int) -> None:
        """``count`` triggers of the tenant go, within the room it had under the caller's lock."""
        bucket = tenant_bucket(tenant.id, tenant.rate_per_second, tenant.rate_burst)
        if bucket and count:
            self._buckets.take(bucket, count)

    def admit(self, target: str, wanted: int) -> list[timedelta]:
        """How long each of those of ``wanted`` that may not call ``target`` now is to wait, soonest first."""
        bucket = target_bucket(target)
        if bucket is None:
            return []
        granted, retry_after_seconds = self._buckets.take(bucket, wanted)
        if granted == wanted:
            return []
        now = time.monotonic()
        first = max(now + retry_after_seconds, self._spoken_for.get(target, 0.0))
        turns = [first + n / bucket.per_second for n in range(wanted - granted)]
        self._spoken_for[target] = turns[-1] + 1 / bucket.per_second
        return [timedelta(seconds=turn - now) for turn in turns]


@cache
def shared_buckets() -> Buckets:
    """The buckets of this deployment."""
    return Buckets(url=settings.REDIS_URL)

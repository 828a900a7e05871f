"""A bucket, and one process's account of it: GCRA, a token bucket that keeps one number, when it is full again."""

import math
from dataclasses import dataclass, field

#: Redis is asked about a bucket again after this long, because other processes take tokens and give some back.
ASK_AGAIN_SECONDS = 0.25
#: The prefix of the keys of targets' buckets.
OF_TARGETS = "target:"
#: The error that rounding may make, as a part of a token.
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Bucket:
    """A limit: ``per_second`` firings on average (at least 0.001), ``burst`` at once. ``key`` names its owner."""

    key: str
    per_second: float
    burst: int

    @property
    def interval(self) -> float:
        """Seconds in which one token comes back."""
        return 1 / self.per_second


def tenant_bucket(tenant_id: int, per_second: int | None, burst: int | None) -> Bucket | None:
    """A tenant's limit by its quotas; None when it has none."""
    return Bucket(f"tenant:{tenant_id}", per_second, burst or per_second) if per_second else None


def target_bucket(target: str, per_second: float) -> Bucket | None:
    """The limit of a webhook's host (``jobs.core.levers.targets``), for all tenants together; None when it has none."""
    if not target or not per_second:
        return None
    return Bucket(f"{OF_TARGETS}{target}", per_second, max(1, math.ceil(per_second)))


@dataclass(eq=False, slots=True)
class Account:
    """One bucket as this process knows it. Times are ``time.monotonic()``'s; the lock of its ``Buckets`` guards it.

    ``full_at``: when the bucket is full again, without the held tokens. ``held``: tokens that Redis counts as taken for
    this process. ``spent`` (since ``spent_since``) and ``returned``: tokens that Redis has yet to be told of. Held
    tokens that are spent count as returned and as spent. So the bucket fills from the moment they were spent, and not
    from when they were held.
    """

    bucket: Bucket
    used_at: float
    full_at: float = 0.0
    held: int = 0
    spent: int = 0
    spent_since: float = 0.0
    returned: int = 0
    asked_at: float = field(default=-math.inf)
    #: Until when a target's turns are given out: each waiting trigger is sent once to wait for a turn of its own.
    spoken_for: float = 0.0

    def room(self, now: float) -> int:
        """How many tokens there are."""
        missing = max(0.0, self.full_at - now) / self.bucket.interval
        return max(0, math.floor(self.bucket.burst - missing + _EPSILON))

    @property
    def has_news(self) -> bool:
        """Whether Redis has yet to be told something."""
        return bool(self.spent or self.returned)

    def has_plenty(self, wanted: int, now: float) -> bool:
        """Whether more than half of the burst is left after ``wanted`` tokens, as Redis said a moment ago."""
        recent = self.asked_at > now - ASK_AGAIN_SECONDS
        return recent and self.room(now) - wanted > self.bucket.burst / 2

    def next_at(self, now: float) -> float:
        """When there is a token again."""
        return max(now, self.full_at - (self.bucket.burst - 1) * self.bucket.interval)

    def spend(self, count: int, now: float) -> None:
        """Take ``count`` tokens, those held first."""
        self.full_at = max(self.full_at, now) + count * self.bucket.interval
        self.give_back(count)
        if not self.spent:
            self.spent_since = now
        self.spent += count

    def give_back(self, count: int) -> None:
        """Give back ``count`` held tokens, or as many as are held."""
        count = min(count, self.held)
        self.held -= count
        self.returned += count

    def follow(self, bucket: Bucket, now: float) -> None:
        """Go by another rate from now on. A raised rate never has to wait for as long as the old rate had to, nor for
        turns that were given out under the old rate.
        """
        if bucket != self.bucket:
            self.bucket = bucket
            self.full_at = min(self.full_at, now + bucket.burst * bucket.interval)
            self.spoken_for = 0.0

    def learn(self, *, sent_at: float, full_at_when_sent: float, full_in: float) -> None:
        """Redis said that at ``sent_at`` the bucket was to be full after ``full_in`` seconds, by its knowledge then.

        This process's own report is in it, so the difference is the tokens that others spent. Tokens that this process
        spent since are kept.
        """
        by_others = sent_at + full_in - max(sent_at, full_at_when_sent)
        self.full_at = max(self.full_at, sent_at) + by_others

    def tells_nothing(self, now: float) -> bool:
        """Whether it may be forgotten: a bucket that is not known counts as full, as this one is."""
        idle = self.used_at < now - 1 and max(self.full_at, self.spoken_for) <= now
        return idle and not self.held and not self.has_news

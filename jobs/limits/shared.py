"""The buckets as one process sees them: its accounts, and the thread that exchanges them with Redis, or Postgres."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from django.conf import settings

from jobs.limits.buckets import ASK_AGAIN_SECONDS, Account, Bucket
from jobs.limits.exchange import Answer, Line, Request, Wire
from jobs.limits.over_postgres import PostgresWire
from jobs.limits.over_redis import RedisWire
from jobs.telemetry import Outage, get_logger

log = get_logger()
#: How long a caller waits for Redis in all, however many buckets it asks about.
BUDGET_SECONDS = 0.1
#: While exchanges take longer than this, callers do not wait for them at all.
SLOW_SECONDS = 0.05
RETRY_AFTER_SECONDS = 1.0
#: After Redis was told of tokens taken where there are plenty, it is not told again for this long. An exchange for each
#: caller would cost the caller as much as the statements that create a job.
TELL_EVERY_SECONDS = 0.02
#: The thread ends when it has had nothing to exchange for this long.
IDLE_SECONDS = 10.0
MAX_ACCOUNTS = 50_000
ALONE = (
    "No Redis answers under REDIS_URL, so rates of tenants, hosts and keys are counted by each process alone. "
    "With RabbitMQ as the broker leave REDIS_URL out, and they are counted in Postgres."
)


class RateStatus(NamedTuple):
    """A bucket after tokens were taken: ``remaining`` tokens at once, and full after ``reset_after_seconds``."""

    granted: int
    remaining: int
    reset_after_seconds: float
    retry_after_seconds: float


class Buckets:
    """The accounts of one process. Any thread may call any method; none waits for longer than ``BUDGET_SECONDS``.

    ``counted_alone``: tokens spent while Redis was away. ``tampered``: how often something else stood in a bucket's
    place. A forked process makes another.
    """

    def __init__(self, *, url: str) -> None:
        """``url``: of Redis; empty where there is none."""
        self._wire = wire_of(url)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._accounts: dict[str, Account] = {}
        self._dirty: dict[Account, None] = {}
        self._requests: list[Request] = []
        self._began_at: float | None = None
        self._last_seconds = 0.0
        self._away = False
        self._outage, self._slowness = Outage("rate limits away"), Outage("rate limits slow")
        self._forgot_at = time.monotonic()
        #: When Redis was last told, and whether it must be told something at once.
        self._told_at, self._urgent = 0.0, False
        self.counted_alone = self.tampered = 0

    def __len__(self) -> int:
        return len(self._accounts)

    @property
    def slow(self) -> bool:
        """Whether Redis does not answer soon: it is away, or slow."""
        began_at = self._began_at
        running = 0.0 if began_at is None else time.monotonic() - began_at
        return self._away or max(running, self._last_seconds) > SLOW_SECONDS

    def available(self, bucket: Bucket) -> int | None:
        """How many tokens there are; None while Redis cannot be asked."""
        with self._changed:
            account = self._account(bucket)
        answered = self._ask({account: 0}).answered
        with self._changed:
            return account.room(time.monotonic()) if answered else None

    def take(self, bucket: Bucket, wanted: int = 1) -> RateStatus:
        """Take up to ``wanted`` tokens. Where there are plenty, Redis is told soon, and the caller does not wait."""
        with self._changed:
            account = self._account(bucket)
            has_plenty = account.has_plenty(wanted, time.monotonic())
        request = self._ask({} if has_plenty else {account: wanted})
        with self._changed:
            now = time.monotonic()
            if request.answered:
                account.asked_at, granted = now, request.held[account]
            else:
                granted = min(wanted, account.room(now))
            knows = has_plenty and bool(self._dirty)
            self._spend(account, granted, now)
            if not knows:
                self._notify(urgent=not has_plenty)
            wait = account.next_at(now) - now
            return RateStatus(granted, account.room(now), max(0.0, account.full_at - now), wait)

    def hold(self, buckets: Iterable[Bucket]) -> dict[Bucket, int]:
        """Hold all tokens of each bucket, so that no other process spends them. Returns how many may be spent.

        ``spend`` ends the hold. While Redis is slow nothing is held: the figures are those of this process alone.
        """
        with self._changed:
            now = time.monotonic()
            accounts = [self._account(bucket) for bucket in buckets]
            wanted = {
                account: account.bucket.burst
                for account in accounts
                if account.room(now) or account.asked_at < now - ASK_AGAIN_SECONDS
            }
            for account in wanted:
                account.asked_at = now
        held = self._ask(wanted).held
        with self._changed:
            now = time.monotonic()
            return {
                account.bucket: held[account] if account in held else account.room(now)
                for account in accounts
            }

    def spend(self, counts: Mapping[Bucket, int], *, held: Iterable[Bucket] = ()) -> None:
        """Spend so many tokens of each bucket, and give back the rest of those ``held``. Never waits."""
        with self._changed:
            now = time.monotonic()
            for bucket, count in counts.items():
                self._spend(self._account(bucket), count, now)
            for bucket in held:
                account = self._account(bucket)
                account.give_back(account.held)
                self._note(account)
            self._notify()

    def admit(self, bucket: Bucket, wanted: int) -> tuple[int, list[float]]:
        """Spend up to ``wanted`` tokens by the account alone. Returns how many, and the others' turns in seconds.

        Never waits. Tokens that another process spent since the last exchange are not seen, and are saved afterwards.
        """
        with self._changed:
            now = time.monotonic()
            account = self._account(bucket)
            granted = min(wanted, account.room(now))
            self._spend(account, granted, now)
            self._notify()
            if granted == wanted:
                return granted, []
            first = max(account.next_at(now), account.spoken_for)
            turns = [first + n * bucket.interval for n in range(wanted - granted)]
            account.spoken_for = turns[-1] + bucket.interval
            return granted, [turn - now for turn in turns]

    def forget_turns(self, prefix: str, matches: Callable[[str], bool]) -> None:
        """Take back the turns given out for buckets whose key is ``prefix`` and a name that ``matches``."""
        with self._changed:
            for key, account in self._accounts.items():
                if account.spoken_for and key.startswith(prefix) and matches(key.removeprefix(prefix)):
                    account.spoken_for = 0.0

    def _account(self, bucket: Bucket) -> Account:
        now = time.monotonic()
        account = self._accounts.get(bucket.key)
        if account is None:
            account = self._accounts[bucket.key] = Account(bucket, used_at=now)
        account.follow(bucket, now)
        account.used_at = now
        return account

    def _spend(self, account: Account, count: int, now: float) -> None:
        if self._away:
            self.counted_alone += count
        account.spend(count, now)
        self._note(account)

    def _note(self, account: Account) -> None:
        if account.has_news:
            self._dirty[account] = None

    def _ask(self, wanted: Mapping[Account, int]) -> Request:
        """Exchange these accounts now, and wait for it. While Redis is slow: exchange them soon, and hold nothing."""
        request = Request(wanted)
        if not wanted:
            return request
        with self._changed:
            slow = self.slow
            if slow:
                self._dirty |= dict.fromkeys(wanted)
            else:
                self._requests.append(request)
            self._notify()
        if not slow:
            request.done.wait(BUDGET_SECONDS)
        with self._changed:
            request.abandoned = not request.answered
        return request

    def _notify(self, *, urgent: bool = True) -> None:
        if not self._requests and not self._dirty:
            return
        self._urgent = self._urgent or urgent
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rate limits", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        """Exchange whenever there is something to say, until there was nothing to say for a while."""
        while True:
            with self._changed:
                while (rest := self._rest()) is not None:
                    if not self._changed.wait(rest) and not self._requests and not self._dirty:
                        self._thread = None
                        self._wire.rest()
                        return
                requests, self._requests = self._requests, []
                self._began_at = self._told_at = time.monotonic()
                self._urgent = False
                lines = self._lines(requests, self._began_at)
                self._forget(self._began_at)
            answered = self._exchange(lines, requests)
            for request in requests:
                request.done.set()
            if not answered:
                time.sleep(RETRY_AFTER_SECONDS)

    def _rest(self) -> float | None:
        """Seconds to wait for something to say; None: there is something to say now."""
        if not self._requests and not self._dirty:
            return IDLE_SECONDS
        left = self._told_at + TELL_EVERY_SECONDS - time.monotonic()
        return None if self._requests or self._urgent or left <= 0 else left

    def _lines(self, requests: Sequence[Request], now: float) -> list[Line]:
        asked = defaultdict[Account, list[Request]](list)
        for account in self._dirty:
            asked[account] = []
        for request in requests:
            for account in request.wanted:
                asked[account].append(request)
        self._dirty = {}
        return [Line(account, who, now) for account, who in asked.items()]

    def _exchange(self, lines: Sequence[Line], requests: Sequence[Request]) -> bool:
        """Returns whether Redis answered."""
        answers: list[Answer] = []
        failure: Exception | None = None
        try:
            answers = self._wire.call(lines)
        except self._wire.failures as error:
            failure = error
        except Exception as error:
            # A defect. Without the thread all accounts would be counted alone from now on, unnoticed.
            log.exception("rate limits broken")
            failure = error
        with self._changed:
            now = time.monotonic()
            self._last_seconds, self._began_at = now - (self._began_at or now), None
            self._note_answer(failure)
            for line, answer in zip(lines, answers, strict=not failure):
                line.settle(answer.held, answer.full_in, now)
            for line in lines:
                if failure:
                    line.take_back()
                self._note(line.account)
            for request in requests:
                request.answered = not failure and not request.abandoned
        self._warn_of_tampering(
            [line for line, answer in zip(lines, answers, strict=False) if answer.strange]
        )
        return failure is None

    def _warn_of_tampering(self, lines: Sequence[Line]) -> None:
        """No other program has reason to write there. Each such bucket counted as empty; others are not affected."""
        if lines:
            self.tampered += len(lines)
            some = [line.account.bucket.key for line in lines[:10]]
            log.error("rate limits tampered with", buckets=some, times=self.tampered)

    def _note_answer(self, failure: Exception | None) -> None:
        self._away = failure is not None
        if failure is not None:
            refused = self._wire.refused(failure)
            self._outage.failed(failure, refused=refused, counted_alone=self.counted_alone)
            return
        self._outage.over(counted_alone=self.counted_alone)
        if self._last_seconds > SLOW_SECONDS:
            self._slowness.failed(TimeoutError(f"An exchange took {self._last_seconds:.3f} s."))
        else:
            self._slowness.over()

    def _forget(self, now: float) -> None:
        """Once a second, forget accounts that tell nothing, and beyond ``MAX_ACCOUNTS`` the longest unused."""
        if now < self._forgot_at + 1 and len(self._accounts) <= MAX_ACCOUNTS:
            return
        self._forgot_at = now
        kept = {key: each for key, each in self._accounts.items() if not each.tells_nothing(now)}
        if len(kept) > MAX_ACCOUNTS:
            newest = sorted(kept.items(), key=lambda item: -item[1].used_at)
            kept = dict(newest[: MAX_ACCOUNTS * 9 // 10])
        self._accounts = kept


def wire_of(url: str) -> Wire:
    """The wire to the Redis of that URL; to Postgres where there is none."""
    return RedisWire(url) if url else PostgresWire()


def counted_together(*, patience_seconds: float = 2.0, say: bool = False) -> bool:
    """Whether Redis, or Postgres in its place, answers, so that all processes count rates together. ``say``: warn in
    the log when it does not.
    """
    error = wire_of(settings.REDIS_URL).failure(patience_seconds=patience_seconds)
    if error is not None and say:
        log.warning("rates not shared", reason=ALONE, error=str(error))
    return error is None


@cache
def shared_buckets() -> Buckets:
    """The buckets of this deployment."""
    return Buckets(url=settings.REDIS_URL)


# The thread stays behind in the parent, and may have held the lock.
os.register_at_fork(after_in_child=shared_buckets.cache_clear)

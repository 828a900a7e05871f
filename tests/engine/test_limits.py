"""Rate limits that processes share, on a real Redis: one that answers, a slow one, and none."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from redis import Redis
from structlog.testing import capture_logs

from chaos.stage.proxy import Proxies, Weather
from jobs.limits import BUDGET_SECONDS, Bucket, Buckets, Rates, shared, target_bucket, tenant_bucket
from jobs.limits.buckets import Account
from jobs.limits.over_redis import PREFIX
from stage.waiting import wait_until
from tests.factories import MINUTE, SECOND, dispatch, make_job, make_tenant, make_triggers

NOBODY = "redis://127.0.0.1:1/0"
#: What a busy machine adds to a wait. One by one, 300 answers would take 6 s at the least.
SLACK = 2.0


def new_bucket(*, per_second: float = 0.01, burst: int = 5) -> Bucket:
    return Bucket(f"test:{uuid4()}", per_second, burst)


def new_tenant(*, per_second: int | None = 1, burst: int | None = 10) -> SimpleNamespace:
    return SimpleNamespace(id=random.randrange(10**9, 10**15), rate_per_second=per_second, rate_burst=burst)


@pytest.fixture
def buckets() -> Buckets:
    return Buckets(url=django_settings.REDIS_URL)


@pytest.fixture
def another() -> Buckets:
    """The buckets of another process."""
    return Buckets(url=django_settings.REDIS_URL)


@pytest.fixture
def redis() -> Redis:
    return Redis.from_url(django_settings.REDIS_URL)


@pytest.fixture
def link() -> Iterator[SimpleNamespace]:
    """``url`` of Redis behind a link, and ``delay(seconds)`` which makes each round trip take so long."""
    parts = urlsplit(django_settings.REDIS_URL)
    address = parts.path if parts.scheme == "unix" else parts.port or 6379
    options = Redis.from_url(django_settings.REDIS_URL).connection_pool.connection_kwargs
    with Proxies(rng=random.Random(1)) as proxies:
        port = proxies.add("beat", "redis", address)
        yield SimpleNamespace(
            url=f"redis://127.0.0.1:{port}/{options.get('db', 0)}",
            delay=lambda seconds: proxies.set("beat", "redis", Weather(delay=seconds / 2)),
        )


def settled(buckets: Buckets, *, seconds: float = 5.0) -> None:
    """Wait until everything has been told to Redis."""
    deadline = time.monotonic() + seconds
    while buckets._dirty or buckets._requests or buckets._began_at is not None:
        assert time.monotonic() < deadline, "not told to Redis"
        time.sleep(0.005)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = call()
    return time.monotonic() - began, result


def spend_all_there_is(tenant: Any, *dispatchers: Rates, seconds: float) -> tuple[float, int]:
    """Dispatch for so long as beats do. Returns the seconds it took and how much was spent."""
    began, spent = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        for rates in dispatchers:
            room = rates.rooms([tenant])[tenant.id]
            rates.spend({tenant.id: room})
            spent += room
        time.sleep(0.02)
    return time.monotonic() - began, spent


class TestBuckets:
    def test_tell_of_many_calls_at_once_where_there_are_plenty(
        self, buckets: Buckets, another: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared, "TELL_EVERY_SECONDS", 600.0)
        monkeypatch.setattr("jobs.limits.buckets.ASK_AGAIN_SECONDS", 600.0)
        exchange, exchanges = buckets._wire.call, []
        monkeypatch.setattr(buckets._wire, "call", lambda lines: exchanges.append(lines) or exchange(lines))
        mine = new_bucket(burst=1000)
        assert [buckets.take(mine).granted for _ in range(300)] == [1] * 300
        # The first asked; what it spent was told at once.
        assert len(exchanges) <= 2
        # Who asks tells all there is to be told.
        assert buckets.available(mine) == another.available(mine) == 700

    def test_tell_of_one_call_before_long(self, buckets: Buckets, another: Buckets) -> None:
        mine = new_bucket(burst=1000)
        buckets.take(mine)
        buckets.take(mine)
        wait_until(lambda: another.available(mine) == 998, 5, what="another process to know of both")

    def test_grant_their_burst_and_then_nothing(self, buckets: Buckets) -> None:
        mine = new_bucket()
        assert buckets.available(mine) == 5
        assert buckets.take(mine, 3).granted == 3
        assert buckets.available(mine) == 2
        assert buckets.take(mine, 9).granted == 2
        status = buckets.take(mine, 1)
        assert (status.granted, status.remaining, 90 < status.retry_after_seconds <= 100) == (
            0,
            0,
            True,
        )

    def test_are_shared_by_all_processes(self, buckets: Buckets, another: Buckets) -> None:
        mine = new_bucket()
        assert buckets.take(mine, 4).granted == 4
        assert another.take(mine, 4).granted == 1

    def test_fill_up_again_at_their_rate(self, buckets: Buckets) -> None:
        mine = new_bucket(per_second=50, burst=1)
        began = time.monotonic()
        for _ in range(25):
            wait_until(lambda: buckets.take(mine).granted, timeout=5, what="a token")
        assert (time.monotonic() - began) * 50 + 1 >= 25

    def test_keep_apart_whose_they_are(self, buckets: Buckets) -> None:
        buckets.take(new_bucket(), 5)
        assert buckets.available(new_bucket()) == 5

    def test_count_alone_while_redis_is_away(self) -> None:
        alone, mine = Buckets(url=NOBODY), new_bucket()
        alone.take(mine, 0)
        assert [alone.take(mine, 3).granted for _ in range(3)] == [3, 2, 0]
        assert alone.available(mine) is None
        assert alone.counted_alone == 5

    def test_tell_of_a_redis_that_is_away_once_and_of_its_end(
        self, buckets: Buckets, caplog: pytest.LogCaptureFixture
    ) -> None:
        away, mine = Buckets(url=NOBODY), new_bucket()
        for _ in range(3):
            away.available(mine)
        away._wire = buckets._wire
        wait_until(lambda: away.available(mine) is not None, 30, what="an answer")
        told = [record.msg for record in caplog.records if record.name == "carillon"]
        assert [line["event"] for line in told] == ["rate limits away", "rate limits away: over"]
        assert told[0]["refused"] is False

    def test_go_on_after_a_defect_in_an_exchange(
        self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = new_bucket()
        with monkeypatch.context() as broken:
            broken.setattr(buckets._wire, "call", lambda _: 1 / 0)
            assert buckets.take(mine, 3).granted == 3
        wait_until(lambda: buckets.available(mine) == 2, timeout=5, what="Redis to be asked again")

    def test_tell_redis_afterwards_what_was_spent_without_it(
        self, buckets: Buckets, another: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared, "RETRY_AFTER_SECONDS", 0.01)
        mine, away = new_bucket(), Buckets(url=NOBODY)
        away.take(mine, 0)
        assert away.take(mine, 4).granted == 4
        away._wire = buckets._wire
        settled(away)
        assert another.available(mine) == 1

    @pytest.mark.parametrize("fault", ["list", "text"])
    def test_hold_though_their_key_is_tampered_with(self, buckets: Buckets, redis: Redis, fault: str) -> None:
        mine, other = new_bucket(per_second=20, burst=2), new_bucket()
        if fault == "list":
            redis.lpush(PREFIX + mine.key, "a message")
        else:
            redis.set(PREFIX + mine.key, "nonsense")
        assert buckets.take(mine, 1).granted == 0
        assert buckets.take(other, 9).granted == 5
        assert (buckets.counted_alone, buckets.tampered) == (0, 1)
        wait_until(lambda: buckets.take(mine).granted, timeout=1, what="the first token")


class TestAChangedRate:
    def test_that_is_raised_stops_nobody(self, buckets: Buckets, another: Buckets) -> None:
        slow = new_bucket(per_second=1, burst=1000)
        assert buckets.take(slow, 1000).granted == 1000
        fast = Bucket(slow.key, 1000, 1000)
        for process in (buckets, another):
            wait_until(lambda: process.take(fast, 10).granted, timeout=0.5, what="a token")  # noqa: B023
            assert process.take(fast, 0).retry_after_seconds < 0.01

    def test_gives_no_second_burst(self, buckets: Buckets, another: Buckets) -> None:
        assert buckets.take(mine := new_bucket(burst=5), 5).granted == 5
        for process in (buckets, another):
            assert process.take(Bucket(mine.key, 0.02, 6), 9).granted == 0

    def test_nor_a_clock_of_redis_that_steps_back_stops_anybody(self, buckets: Buckets, redis: Redis) -> None:
        mine = new_bucket(per_second=1000, burst=10)
        seconds, micros = redis.time()
        redis.set(PREFIX + mine.key, f"{seconds - 1735660800 + 3600}.{micros:06}")
        assert buckets.take(mine, 1).granted == 0
        wait_until(lambda: buckets.take(mine).granted, timeout=0.5, what="a token")


@pytest.mark.usefixtures("hasty_redis")
class TestASlowRedis:
    @pytest.mark.parametrize("seconds", [0.02, 0.2, 2.0])
    def test_keeps_nobody_waiting_longer_than_the_budget_for_any_number(
        self, link: SimpleNamespace, seconds: float
    ) -> None:
        rates = Rates(Buckets(url=link.url))
        tenants = [new_tenant(per_second=5, burst=3) for _ in range(300)]
        link.delay(seconds)
        waited = []
        for _ in range(6 if seconds < BUDGET_SECONDS else 40):
            took, rooms = timed(lambda: rates.rooms(tenants))
            waited.append(took)
            assert set(rooms) == {tenant.id for tenant in tenants}
            took, _ = timed(lambda: rates.spend({tenant.id: 1 for tenant in tenants if rooms[tenant.id]}))  # noqa: B023
            waited.append(took)
        assert max(waited) <= BUDGET_SECONDS + SLACK
        if seconds > BUDGET_SECONDS:
            # The budget is spent once, not at each call.
            assert sum(waited) <= 2 * BUDGET_SECONDS + SLACK

    @pytest.mark.parametrize("seconds", [0.2, 2.0])
    def test_lets_a_tenant_have_its_rate_and_no_more(self, link: SimpleNamespace, seconds: float) -> None:
        rates, tenant = Rates(Buckets(url=link.url)), new_tenant(per_second=20, burst=20)
        link.delay(seconds)
        passed, spent = spend_all_there_is(tenant, rates, seconds=3)
        assert 20 * passed <= spent <= 20 * passed + 20

    def test_lets_two_dispatchers_have_a_burst_more_once(self, link: SimpleNamespace) -> None:
        link.delay(0.2)
        both = [Rates(Buckets(url=link.url)) for _ in range(2)]
        tenant = new_tenant(per_second=20, burst=10)
        passed, spent = spend_all_there_is(tenant, *both, seconds=4)
        assert spent <= 20 * passed + 2 * 10

    def test_is_told_of(self, link: SimpleNamespace) -> None:
        buckets, mine = Buckets(url=link.url), new_bucket(per_second=1000)
        buckets.take(mine)
        link.delay(2 * shared.SLOW_SECONDS)
        with capture_logs() as said:
            for _ in range(3):
                buckets.take(mine)
                settled(buckets)
        assert [line["event"] for line in said] == ["rate limits slow"]

    def test_is_waited_for_again_when_it_is_fast_again(
        self, link: SimpleNamespace, another: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow, mine = Buckets(url=link.url), new_bucket()
        link.delay(0.4)
        assert slow.take(mine, 2).granted == 2
        link.delay(0)

        def fast_again() -> bool:
            slow.take(mine, 0)
            settled(slow)
            return not slow.slow

        wait_until(fast_again, what="Redis to be fast again")
        monkeypatch.setattr(shared, "BUDGET_SECONDS", 10.0)
        monkeypatch.setattr(shared, "SLOW_SECONDS", 10.0)
        assert another.take(mine, 1).granted == 1
        assert slow.take(mine, 9).granted == 2


class TestMemory:
    def test_forgets_hosts_that_tell_nothing(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(500):
            buckets.admit(new_bucket(per_second=1000, burst=1000), 1)
        kept = new_bucket()
        buckets.admit(kept, 5)
        settled(buckets)
        later = time.monotonic() + 2
        monkeypatch.setattr(shared.time, "monotonic", lambda: later)
        buckets.admit(new_bucket(), 1)
        settled(buckets)
        assert len(buckets) == 2
        assert buckets.admit(kept, 1)[0] == 0

    def test_is_bounded_whatever_hosts_are_invented(
        self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared, "MAX_ACCOUNTS", 100)
        for _ in range(500):
            buckets.admit(new_bucket(), 1)
        settled(buckets)
        buckets.admit(new_bucket(), 1)
        settled(buckets)
        assert len(buckets) <= 101


class TestWhoseBucket:
    def test_belongs_to_a_tenant_with_a_rate(self) -> None:
        assert tenant_bucket(7, 10, None) == Bucket("tenant:7", 10, 10)
        assert tenant_bucket(7, 10, 3) == Bucket("tenant:7", 10, 3)
        assert tenant_bucket(7, None, 3) is None

    def test_belongs_to_a_target_with_a_rate(self) -> None:
        assert target_bucket("slow.example", 0.5) == Bucket("target:slow.example", 0.5, 1)
        assert target_bucket("other.example", 20) == Bucket("target:other.example", 20, 20)
        assert target_bucket("", 20) is None
        assert target_bucket("any.example", 0) is None


class TestRatesOfTargets:
    @pytest.fixture
    def target(self) -> str:
        return f"{uuid4()}.example"

    def test_send_each_of_a_crowd_to_wait_for_its_own_turn(self, buckets: Buckets, target: str) -> None:
        admission = Rates(buckets).admit({target: (7, 2.0)})[target]
        assert (admission.granted, len(admission.waits)) == (2, 5)
        gaps = [later - sooner for sooner, later in itertools.pairwise(admission.waits)]
        assert all(abs(gap / SECOND - 0.5) < 0.01 for gap in gaps)

    def test_send_the_next_crowd_behind_the_first(self, buckets: Buckets, target: str) -> None:
        rates = Rates(buckets)
        first = rates.admit({target: (7, 2.0)})[target]
        later = rates.admit({target: (1, 2.0)})[target]
        assert later.waits[0] > first.waits[-1]

    def test_of_a_raised_rate_owe_nothing_to_those_of_the_lower_one(
        self, buckets: Buckets, another: Buckets, target: str
    ) -> None:
        led_before, leads_now = Rates(buckets), Rates(another)
        slow = led_before.admit({target: (40, 0.01)})[target]
        assert slow.waits[-1] > 30 * MINUTE
        settled(buckets)
        # Who leads when the rule changes takes back the turns that it knows of.
        leads_now.forget_turns(lambda each: each == target)
        leads_now.admit({target: (1, 100.0)})
        assert led_before.admit({target: (150, 100.0)})[target].waits[-1] < MINUTE

    def test_are_told_to_other_processes(self, buckets: Buckets, another: Buckets, target: str) -> None:
        Rates(buckets).admit({target: (2, 2.0)})
        settled(buckets)
        bucket = target_bucket(target, 2.0)
        assert bucket is not None
        assert another.available(bucket) == 0

    def test_ask_nobody(self, buckets: Buckets, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(buckets, "_ask", lambda _: pytest.fail("asked"))
        admissions = Rates(buckets).admit({target: (7, 2.0), "free.example": (5, 0)})
        assert [admissions[name].granted for name in (target, "free.example")] == [2, 5]


class TestPlenty:
    """Where a take does not wait for Redis."""

    @staticmethod
    def account(*, spent: int, asked_at: float) -> Account:
        account = Account(Bucket("k", 1, 100), used_at=1000, asked_at=asked_at)
        account.spend(spent, 1000)
        return account

    def test_is_more_than_half_of_the_burst(self) -> None:
        assert self.account(spent=48, asked_at=999.9).has_plenty(1, 1000)
        assert not self.account(spent=49, asked_at=999.9).has_plenty(1, 1000)

    def test_is_what_redis_said_a_moment_ago(self) -> None:
        assert not self.account(spent=0, asked_at=999.5).has_plenty(1, 1000)

    def test_is_taken_from_what_others_see(self, buckets: Buckets, another: Buckets) -> None:
        bucket = new_bucket(burst=1000)
        assert [buckets.take(bucket).granted for _ in range(20)] == [1] * 20
        settled(buckets)
        assert another.available(bucket) == 980


class TestRatesOfTenants:
    def test_know_a_tenants_room_and_take_what_goes(self, buckets: Buckets, another: Buckets) -> None:
        rates, tenant = Rates(buckets), new_tenant()
        assert rates.rooms([tenant, new_tenant(per_second=None)]) == {tenant.id: 10}
        rates.spend({tenant.id: 4})
        assert rates.rooms([tenant]) == {tenant.id: 6}
        rates.spend({})
        settled(buckets)
        assert Rates(another).rooms([tenant]) == {tenant.id: 6}

    def test_show_no_token_to_two_dispatchers_at_once(self, buckets: Buckets, another: Buckets) -> None:
        ours, theirs, tenant = Rates(buckets), Rates(another), new_tenant()
        assert ours.rooms([tenant]) == {tenant.id: 10}
        assert theirs.rooms([tenant]) == {tenant.id: 0}
        ours.spend({tenant.id: 1})
        settled(buckets)
        wait_until(lambda: theirs.rooms([tenant]) == {tenant.id: 9}, timeout=2, what="what was given back")

    def test_fill_from_when_they_are_spent_however_long_they_were_held(
        self, buckets: Buckets, another: Buckets
    ) -> None:
        ours, theirs, tenant = Rates(buckets), Rates(another), new_tenant(per_second=10, burst=10)
        assert ours.rooms([tenant]) == {tenant.id: 10}
        held_at = time.monotonic()
        # A dispatch that stalls: the stamps of what it dispatches are of its end.
        wait_until(lambda: time.monotonic() > held_at + 1)
        ours.spend({tenant.id: 9})
        spent_at = time.monotonic()
        settled(buckets)
        assert theirs.rooms([tenant])[tenant.id] <= 1 + (time.monotonic() - spent_at) * 10

    def test_give_back_what_a_failed_dispatch_held(self, buckets: Buckets, another: Buckets) -> None:
        rates, tenant = Rates(buckets), new_tenant()
        rates.rooms([tenant])
        rates.rooms([])
        settled(buckets)
        assert Rates(another).rooms([tenant]) == {tenant.id: 10}


@pytest.mark.django_db
@pytest.mark.usefixtures("hasty_redis")
class TestDispatch:
    @pytest.mark.parametrize("seconds", [0.05, 0.2, 2.0])
    def test_goes_on_for_all_while_redis_is_slow(self, link: SimpleNamespace, seconds: float) -> None:
        for _ in range(60):
            make_triggers(make_job(make_tenant(rate_per_second=1), max_concurrent=9), 3)
        free = make_triggers(make_job(make_tenant(), max_concurrent=9), 3)
        link.delay(seconds)
        rates = Rates(Buckets(url=link.url))
        took, dispatched = timed(lambda: dispatch(rates=rates, limit=500))
        queued = {item.id for item in dispatched.queued}
        assert len(queued) == 60 + 3
        assert queued >= {trigger.id for trigger in free}
        again, _ = timed(lambda: dispatch(rates=rates, limit=500))
        assert max(took, again) < 2.5  # one by one, 60 answers would take 3 s at the least

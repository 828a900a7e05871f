"""Rate limits that processes share, on a real Redis."""

import time

import pytest
from redis import Redis

from jobs.limits import Bucket, Buckets, shared, target_bucket, tenant_bucket
from jobs.limits.over_redis import PREFIX
from stage.waiting import wait_until
from tests.engine.limits.sharing import NOBODY, new_bucket, settled


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
        # The first take asked Redis. The tokens it spent were told at once.
        assert len(exchanges) <= 2
        # A process that asks also tells everything that it has not told yet.
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

"""Rate limits that processes share, on a Redis that is slow or away, and takes that need not wait for it."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from jobs.limits import BUDGET_SECONDS, Bucket, Buckets, Rates, shared
from jobs.limits.buckets import Account
from stage.waiting import wait_until
from tests.engine.limits.sharing import SLACK, new_bucket, new_tenant, settled, spend_all_there_is, timed


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


class TestPlenty:
    """Cases where a take does not wait for Redis."""

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

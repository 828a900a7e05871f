"""Rate limits that beats share, on a real Redis; and what happens without one."""

import itertools
import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings

from jobs.conf import engine_settings
from jobs.limits import Bucket, Buckets, Rates, target_bucket, tenant_bucket
from tests.factories import SECOND

NOBODY = "redis://127.0.0.1:1/0"


def new_bucket(*, per_second: float = 0.01, burst: int = 5) -> Bucket:
    return Bucket(f"test:{uuid4()}", per_second, burst)


@pytest.fixture
def buckets() -> Buckets:
    return Buckets(url=django_settings.REDIS_URL)


class TestBuckets:
    def test_grant_their_burst_and_then_nothing(self, buckets: Buckets) -> None:
        mine = new_bucket()
        assert buckets.available(mine) == 5
        assert buckets.take(mine, 3).granted == 3
        assert buckets.available(mine) == 2
        assert buckets.take(mine, 9).granted == 2
        granted, retry_after = buckets.take(mine, 1)
        assert (granted, 90 < retry_after <= 100) == (0, True)

    def test_are_shared_by_all_processes(self, buckets: Buckets) -> None:
        mine = new_bucket()
        assert buckets.take(mine, 4).granted == 4
        assert Buckets(url=django_settings.REDIS_URL).take(mine, 4).granted == 1

    def test_fill_up_again_at_their_rate(self, buckets: Buckets) -> None:
        mine = new_bucket(per_second=50, burst=1)
        began = time.monotonic()
        taken = 0
        while (seconds := time.monotonic() - began) < 1:
            taken += buckets.take(mine, 1).granted
        assert taken <= seconds * 50 + 1

    def test_keep_apart_whose_they_are(self, buckets: Buckets) -> None:
        buckets.take(new_bucket(), 5)
        assert buckets.available(new_bucket()) == 5

    def test_let_everything_through_and_count_it_while_redis_is_away(self) -> None:
        alone = Buckets(url=NOBODY)
        for _ in range(100):
            assert alone.take(new_bucket(), 7).granted == 7
            assert alone.available(new_bucket()) is None
        assert alone.let_through == 700

    def test_hold_again_once_redis_is_back(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        mine, away = new_bucket(), Buckets(url=NOBODY)
        assert away.take(mine, 7).granted == 7
        for name, value in {"_store": buckets._store, "_limiters": {}, "_away_until": 0.0}.items():
            monkeypatch.setattr(away, name, value)
        assert away.take(mine, 7).granted == 5


class TestWhoseBucket:
    def test_belongs_to_a_tenant_with_a_rate(self) -> None:
        assert tenant_bucket(7, 10, None) == Bucket("tenant:7", 10, 10)
        assert tenant_bucket(7, 10, 3) == Bucket("tenant:7", 10, 3)
        assert tenant_bucket(7, None, 3) is None

    def test_belongs_to_a_target_by_the_settings(self, settings: Any) -> None:
        settings.CARILLON = engine_settings().model_copy(
            update={"target_rates": {"slow.example": 0.5}, "target_rate_per_second": 20.0}
        )
        assert target_bucket("slow.example") == Bucket("target:slow.example", 0.5, 1)
        assert target_bucket("other.example") == Bucket("target:other.example", 20, 20)
        assert target_bucket("") is None

    def test_is_nobodys_by_default(self) -> None:
        assert target_bucket("any.example") is None


class TestRates:
    @pytest.fixture
    def target(self, settings: Any) -> str:
        name = f"{uuid4()}.example"
        settings.CARILLON = engine_settings().model_copy(update={"target_rates": {name: 2.0}})
        return name

    def test_send_each_of_a_crowd_to_wait_for_its_own_turn(self, buckets: Buckets, target: str) -> None:
        turns = Rates(buckets).admit(target, 7)
        assert len(turns) == 5  # two went at once
        gaps = [later - sooner for sooner, later in itertools.pairwise(turns)]
        assert all(abs(gap / SECOND - 0.5) < 0.01 for gap in gaps)

    def test_send_the_next_crowd_behind_the_first(self, buckets: Buckets, target: str) -> None:
        rates = Rates(buckets)
        first = rates.admit(target, 7)
        [later] = rates.admit(target, 1)
        assert later > first[-1]

    def test_know_a_tenants_room_and_take_what_goes(self, buckets: Buckets) -> None:
        rates = Rates(buckets)
        tenant = SimpleNamespace(id=uuid4().int, rate_per_second=1, rate_burst=10)
        rates.spend(tenant, 4)
        assert rates.room(tenant) == 6
        assert rates.room(SimpleNamespace(id=1, rate_per_second=None, rate_burst=None)) is None

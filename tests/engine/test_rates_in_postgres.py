"""Rate limits where there is no Redis: counted in a real Postgres, exactly, and by the same rule as in Redis."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connection
from hypothesis import assume, given
from hypothesis import strategies as st
from redis import Redis

from jobs.limits import BUDGET_SECONDS, Bucket, Buckets, Rates, over_postgres, shared
from jobs.limits.exchange import DEBT_SECONDS
from jobs.limits.over_postgres import PostgresWire
from jobs.limits.over_redis import _SCRIPT
from jobs.own_session import own_session
from stage.waiting import wait_until
from tests.engine.limits.sharing import SLACK, new_bucket, new_tenant, settled, spend_all_there_is, timed

pytestmark = pytest.mark.django_db
Sessions = Callable[[], psycopg.Connection[Any]]


@pytest.fixture
def buckets() -> Buckets:
    return Buckets(url="")


@pytest.fixture
def another() -> Buckets:
    """The buckets of another process."""
    return Buckets(url="")


@pytest.fixture
def session() -> Iterator[psycopg.Connection[Any]]:
    """A session outside the test's transaction."""
    with own_session(timeout_seconds=5) as session:
        yield session


def rows_of(session: psycopg.Connection[Any], *buckets: Bucket) -> int:
    names = [bucket.key for bucket in buckets]
    [(count,)] = session.execute("SELECT count(*) FROM jobs_rate WHERE bucket = ANY (%s)", [names]).fetchall()
    return int(count)


class TestBuckets:
    def test_grant_their_burst_and_then_nothing(self, buckets: Buckets) -> None:
        mine = new_bucket()
        assert buckets.available(mine) == 5
        assert buckets.take(mine, 3).granted == 3
        assert buckets.available(mine) == 2
        assert buckets.take(mine, 9).granted == 2
        status = buckets.take(mine, 1)
        assert (status.granted, status.remaining, 90 < status.retry_after_seconds <= 100) == (0, 0, True)
        assert buckets.counted_alone == 0

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

    def test_of_a_raised_rate_stop_nobody_and_give_no_second_burst(
        self, buckets: Buckets, another: Buckets
    ) -> None:
        slow = new_bucket(per_second=1, burst=1000)
        assert buckets.take(slow, 1000).granted == 1000
        fast = Bucket(slow.key, 1000, 1000)
        for process in (buckets, another):
            wait_until(lambda: process.take(fast, 10).granted, timeout=0.5, what="a token")  # noqa: B023
        assert buckets.take(mine := new_bucket(burst=5), 5).granted == 5
        assert another.take(Bucket(mine.key, 0.02, 6), 9).granted == 0

    @pytest.mark.parametrize("host", ["a\0b", "x" * 5000, "\ud800", "é" * 300])
    def test_have_any_name_and_spoil_none_of_the_others(self, buckets: Buckets, host: str) -> None:
        mine, other = Bucket(f"target:{uuid4()}{host}", 0.01, 5), new_bucket()
        assert buckets.hold([mine, other]) == {mine: 5, other: 5}
        assert buckets.counted_alone == 0

    def test_are_exchanged_by_the_hundred_in_one_statement_each(
        self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: Counter[int] = Counter()
        exchange = PostgresWire._exchange

        def counted(session: Any, lines: Any) -> Any:
            said[len(lines)] += 1
            return exchange(session, lines)

        monkeypatch.setattr(PostgresWire, "_exchange", staticmethod(counted))
        many = [new_bucket() for _ in range(700)]
        assert set(buckets.hold(many).values()) == {5}
        assert said == {500: 1, 200: 1}


class TestManyProcesses:
    def test_get_no_token_more_than_there_are(self) -> None:
        """Eight processes take at once, from the same buckets in any order: no loss, no doubling, no deadlock."""
        many, rng = [new_bucket(per_second=0.001, burst=50) for _ in range(6)], random.Random(7)
        processes = [Buckets(url="") for _ in range(8)]

        def take(process: Buckets) -> Counter[str]:
            got: Counter[str] = Counter()
            for _ in range(12):
                rooms = process.hold(rng.sample(many, len(many)))
                spent = {bucket: min(room, 1) for bucket, room in rooms.items()}
                process.spend(spent, held=many)
                got.update({bucket.key: count for bucket, count in spent.items()})
            settled(process)
            return got

        with ThreadPoolExecutor(8) as pool:
            taken = sum(pool.map(take, processes), Counter())
        for process in processes:
            settled(process)
        left = {bucket.key: Buckets(url="").take(bucket, 50).granted for bucket in many}
        assert {key: taken[key] + left[key] for key in left} == {bucket.key: 50 for bucket in many}
        assert sum(process.counted_alone for process in processes) == 0

    def test_share_the_rate_of_a_tenant(self, buckets: Buckets, another: Buckets) -> None:
        tenant = new_tenant(per_second=20, burst=10)
        passed, spent = spend_all_there_is(tenant, Rates(buckets), Rates(another), seconds=3)
        assert 20 * (passed - 1) <= spent <= 20 * passed + 10


class TestWhatStandsInTheWay:
    @pytest.mark.usefixtures("hasty_redis")
    def test_keeps_nobody_waiting_longer_than_the_budget(
        self, buckets: Buckets, session: psycopg.Connection[Any]
    ) -> None:
        mine = new_bucket()
        buckets.take(mine, 1)
        with session.transaction():
            session.execute("SELECT 1 FROM jobs_rate WHERE bucket = %s FOR UPDATE", [mine.key])
            waited = [timed(lambda: buckets.take(mine, 1))[0] for _ in range(20)]
        assert max(waited) <= BUDGET_SECONDS + SLACK
        assert sum(waited) <= 2 * BUDGET_SECONDS + SLACK

    def test_is_no_transaction_of_the_callers(self, buckets: Buckets, another: Buckets) -> None:
        """A dispatch may hold its transaction for long, or roll it back: its spent tokens do not depend on that."""
        mine = new_bucket()
        assert connection.in_atomic_block
        assert buckets.take(mine, 4).granted == 4
        assert another.take(mine, 4).granted == 1

    def test_lets_each_count_alone_while_postgres_is_away_and_tells_it_afterwards(
        self, another: Buckets, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        mine, away = new_bucket(), Buckets(url="")
        with monkeypatch.context() as broken:

            def no_session(**_: Any) -> None:
                raise psycopg.OperationalError("connection refused")

            broken.setattr(over_postgres, "own_session", no_session)
            away.take(mine, 0)
            assert [away.take(mine, 2).granted, away.take(mine, 9).granted] == [2, 3]
            assert (away.available(mine), away.counted_alone) == (None, 5)
        wait_until(lambda: another.available(mine) == 0, 30, what="Postgres to be told")
        told = [record.msg for record in caplog.records if record.name == "carillon"]
        assert [line["event"] for line in told] == ["rate limits away", "rate limits away: over"]
        assert told[0]["refused"] is False

    def test_is_gone_when_the_session_was_ended(
        self, buckets: Buckets, session: psycopg.Connection[Any]
    ) -> None:
        mine = new_bucket()
        buckets.take(mine, 2)
        ours = buckets._wire._session.info.backend_pid
        session.execute("SELECT pg_terminate_backend(%s)", [ours])
        wait_until(lambda: buckets.available(mine) == 3, 30, what="another session")


class TestRows:
    def test_are_written_for_what_was_taken_alone(
        self, buckets: Buckets, session: psycopg.Connection[Any]
    ) -> None:
        looked_at, taken_from = new_bucket(), new_bucket()
        buckets.available(looked_at)
        buckets.take(taken_from)
        assert rows_of(session, looked_at, taken_from) == 1

    def test_are_removed_when_they_are_full(
        self, buckets: Buckets, session: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(over_postgres, "SWEEP_SECONDS", 0.0)
        soon_full = [new_bucket(per_second=1000, burst=5) for _ in range(200)]
        empty = new_bucket()
        buckets.spend(dict.fromkeys([*soon_full, empty], 5))
        settled(buckets)

        def swept() -> bool:
            buckets.take(new_bucket(per_second=1000))
            return rows_of(session, *soon_full) == 0

        wait_until(swept, 30, what="full buckets to be removed")
        assert rows_of(session, empty) == 1
        assert buckets.take(empty, 5).granted == 0

    def test_are_on_no_disk_but_their_own(self, session: psycopg.Connection[Any]) -> None:
        [(kind,)] = session.execute(
            "SELECT relpersistence FROM pg_class WHERE relname = 'jobs_rate'"
        ).fetchall()
        assert kind == "u"

    def test_need_a_session_only_while_there_is_something_to_say(
        self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared, "IDLE_SECONDS", 0.05)
        buckets.take(new_bucket())
        wait_until(lambda: buckets._thread is None, 30, what="the thread to end")
        assert buckets._wire._session is None
        assert buckets.take(new_bucket(), 9).granted == 5


_AS_REDIS = """
local time = redis.call('TIME')
if ARGV[#ARGV] ~= '' then
    local full_at = (time[1] - 1735660800) + time[2] / 1000000 + tonumber(ARGV[#ARGV])
    redis.call('SET', KEYS[1], string.format('%.6f', full_at))
end
ARGV[#ARGV] = nil
"""
_seconds = st.floats(-20, 50, allow_nan=False)


@pytest.fixture(scope="module")
def redis() -> Redis:
    return Redis.from_url(django_settings.REDIS_URL)


@given(
    stored=st.none() | _seconds,
    interval=st.sampled_from([0.001, 0.05, 1.0, 7.0]),
    burst=st.integers(1, 40),
    returned=st.integers(0, 5),
    spent=st.integers(0, 50),
    age=st.floats(0, 10),
    wanted=st.integers(0, 60),
)
def test_postgres_and_redis_follow_one_rule(
    redis: Redis,
    stored: float | None,
    interval: float,
    burst: int,
    returned: int,
    spent: int,
    age: float,
    wanted: int,
) -> None:
    asked = [float(value) for value in (interval, burst, returned, spent, age, wanted)]
    span = interval * burst
    # Beyond this time it counts as the time of another rate. At the very edge rounding decides.
    assume(stored is None or abs(stored - span - min(span, DEBT_SECONDS)) > 0.001)
    key = f"test:rule:{uuid4()}"
    relative = "" if stored is None else repr(stored)
    held, full_in, _ = redis.eval(_AS_REDIS + _SCRIPT, 1, key, DEBT_SECONDS, *asked, relative)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT granted, full_at - 1e9 FROM carillon_exchange(%s::float8, 1e9, %s::float8[], %s)",
            [None if stored is None else 1e9 + stored, asked, DEBT_SECONDS],
        )
        [(granted, full_after)] = cursor.fetchall()
    before = full_after - granted * interval
    assert before == pytest.approx(float(full_in) - held * interval, abs=0.0001)
    room = (span - before) / interval
    if abs(room - round(room)) > 0.0001 / interval:  # not at the edge of a token, where rounding decides
        assert granted == held

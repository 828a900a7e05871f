"""Beats that take, renew, share and lose shards at the same moment: none is held twice, none is left to nobody."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count

import pytest
from django.db import connection, transaction
from django.db.models import F

from jobs.engine.firing import materializer
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.engine.leader import SHORT_SECONDS, Leader
from jobs.models import CatchUp, Job, Lease, SkippedRange, Trigger
from jobs.store import leases
from jobs.store.db import Query
from jobs.store.leases import Shard
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_tenant
from tests.races.conftest import Rival, at_once

pytestmark = pytest.mark.django_db(transaction=True)
SHARDS = 8
TEN = 10 * SECOND
#: Of each shard: which holder had it under which term.
Reigns = dict[tuple[str, int | None], set[str]]


def look(leader: Leader) -> int:
    """Let it renew, share and take now. Returns how many shards it holds."""
    leader._renew_after = 0.0
    leader.lead()
    return len(leader._held)


def held_by(leaders: list[Leader]) -> list[str]:
    """The leases the leaders believe they hold."""
    return sorted(shard.lease for leader in leaders for shard in leader._held)


class TestBeatsThatStartTogether:
    def test_never_hold_a_shard_twice_and_come_to_an_even_share_of_all(self) -> None:
        leaders = [Leader(lease=TEN, shards=SHARDS) for _ in range(4)]
        for _ in range(3):
            at_once(*[partial(look, leader) for leader in leaders])
            assert len(held_by(leaders)) == len(set(held_by(leaders)))
        assert [look(leader) for leader in leaders] == [2, 2, 2, 2]
        assert held_by(leaders) == sorted(shard.lease for shard in leases.divide(SHARDS))
        rows = Lease.objects.filter(name__startswith="leader/").values_list("name", "holder")
        assert dict(rows) == {shard.lease: leader._holder for leader in leaders for shard in leader._held}


class TestTwoOnOneShard:
    def test_of_two_that_take_it_one_gets_it(self) -> None:
        shards = leases.divide(1)

        def take(holder: str) -> Callable[[], int]:
            return lambda: len(leases.take(shards, holder=holder, most=1, duration=TEN).shards)

        for _ in range(10):
            assert sum(at_once(take("one"), take("two"), take("three"))) == 1
            Lease.objects.update(expires_at=factories.now() - SECOND)

    def test_a_renewal_that_meets_the_successor_does_not_wait_and_is_refused_later(
        self, rival: Rival
    ) -> None:
        mine = leases.take(leases.divide(3), holder="one", most=3, duration=timedelta()).shards
        rival.do(partial(factories.set_clock, -MINUTE))  # to the rival nothing has expired yet

        def renew() -> list[Shard]:
            return leases.renew(mine, holder="one", duration=TEN)

        with transaction.atomic():
            [taken] = leases.take(leases.divide(3), holder="two", most=1, duration=TEN).shards
            meanwhile = rival.do(renew)
        later = rival.do(renew)
        rival.do(partial(factories.set_clock, timedelta()))
        assert [shard.locked for shard in meanwhile] == [shard.lease == taken.lease for shard in mine]
        assert {shard.lease for shard in later} == {s.lease for s in mine} - {taken.lease}


class TestLockedLease:
    """Somebody holds a lock on a lease's row, and does not let go."""

    @pytest.fixture
    def locked(self, rival: Rival) -> Iterator[None]:
        leases.take(leases.divide(1), holder="nobody", most=1, duration=timedelta())
        lock = Query("lock", "SELECT FROM jobs_lease FOR UPDATE")
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(lock)
        yield
        rival.do(lambda: connection.close())

    def test_is_neither_waited_for_nor_taken_and_beats_lead_without_a_term(
        self, locked: None, rival: Rival
    ) -> None:
        leader = Leader(lease=TEN)
        assert look(leader) == 0, "another beat may be taking it just now"
        assert look(leader) == 0
        leader._locked["leader"] -= SHORT_SECONDS
        leader._renew_after = 0.0
        reign = leader.lead()
        assert (reign and reign.term, leader._wait) == (None, SHORT_SECONDS)
        rival.do(lambda: connection.rollback())
        leader._renew_after = 0.0
        reign = leader.lead()
        assert reign is not None
        assert reign.term == 2

    def test_is_led_on_under_its_term_until_it_runs_out(self, rival: Rival) -> None:
        leader = Leader(lease=TEN)
        first = leader.lead()
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(Query("lock", "SELECT FROM jobs_lease FOR UPDATE"))
        leader._renew_after = 0.0
        assert leader.lead() is first
        leader._locked["leader"] -= SHORT_SECONDS
        factories.set_clock(TEN)
        leader._renew_after = 0.0
        last = leader.lead()
        factories.set_clock(timedelta())
        rival.do(lambda: connection.close())
        assert (first and first.term, last and last.term) == (1, None)


class TestLeasesThatExpireAllTheTime:
    """Leases of a few milliseconds: renewals, expiry, takings and hand-overs meet in every possible way."""

    def test_give_each_term_to_one_holder_and_never_block_each_other_for_good(self) -> None:
        reigns: Reigns = defaultdict(set)

        def live() -> None:
            for life in range(4):
                leader = Leader(lease=timedelta(milliseconds=4), shards=SHARDS)
                for _ in range(40):
                    look(leader)
                    for shard in leader._held:
                        reigns[shard.lease, shard.term].add(leader._holder)
                if life % 2:
                    leader.hand_over()

        at_once(*[live] * 4)
        assert len(reigns) > 5 * SHARDS
        assert {len(holders) for holders in reigns.values()} == {1}


class TestBeatsThatComeAndGo:
    def test_lose_and_double_no_firing(self) -> None:
        moment = factories.now().replace(microsecond=0)
        tenant, since = make_tenant(), moment - 5 * MINUTE
        for number in range(64):
            make_job(
                tenant,
                interval=SECOND,
                created_at=since,
                next_fire_at=since + SECOND,
                partition_key=4 * number,
                misfire_grace=timedelta(hours=1),
            )

        def live(rounds: int) -> Callable[[], None]:
            def work() -> None:
                leader = Leader(lease=timedelta(milliseconds=200), shards=SHARDS)
                for number in range(rounds):
                    if number % 3 == 0:
                        leader._renew_after = 0.0
                    if reign := leader.lead():
                        materializer.materialize(reign=reign, look_ahead=SECOND, limit=5)

            return work

        at_once(live(200), live(10), live(40), live(200))
        last = Leader(lease=TEN, shards=SHARDS)
        Lease.objects.all().update(expires_at=moment - SECOND)
        reign = last.lead()
        assert reign is not None
        while materializer.materialize(reign=reign, look_ahead=SECOND, limit=100) == 100:
            pass
        for job in Job.objects.all():
            instants = sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))
            assert instants == [since + SECOND * k for k in range(1, len(instants) + 1)]
            assert (len(instants) >= 300, job.next_fire_at) == (True, instants[-1] + SECOND)

    def test_decide_each_outage_once_each_that_of_its_own_jobs(self) -> None:
        since = factories.now().replace(microsecond=0) - 48 * HOUR
        tenant = make_tenant()
        for number in range(16):
            plain = {"misfire_policy": "fire_once", "created_at": since, "next_fire_at": since + MINUTE}
            make_job(tenant, partition_key=16 * number, **plain)
        leaders = [Leader(lease=MINUTE, shards=SHARDS) for _ in range(2)]
        for leader in [*leaders, *leaders]:
            look(leader)

        def catch_up(leader: Leader) -> int:
            reign = leader.lead()
            assert reign is not None
            catch_ups = CatchUps(pace=Pace(monotonic=partial(next, count(step=0.5))))
            while materializer.materialize(reign=reign, look_ahead=MINUTE, limit=3):
                catch_ups.step(reign=reign, budget=TEN)
            while catch_ups.step(reign=reign, budget=TEN):
                pass
            return CatchUp.objects.filter(
                job__partition_key__in=reign.shard_proof()["partitions"], cursor__lt=F("until_at")
            ).count()

        assert at_once(*[partial(catch_up, leader) for leader in leaders]) == [0, 0]
        assert CatchUp.objects.count() == 16
        for job in Job.objects.all():
            skipped = sum(SkippedRange.objects.filter(job=job).values_list("count", flat=True))
            fired = Trigger.objects.filter(job=job).count()
            waits = sum(len(found.tail) for found in CatchUp.objects.filter(job=job, finished_at=None))
            assert 48 * 60 <= skipped + fired + waits <= 48 * 60 + 2

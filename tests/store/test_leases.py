"""Leases: who leads, by the database's clock alone; and a deposed reign, whose writes change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from jobs.core.states import TriggerState
from jobs.models import Job, Lease
from jobs.store import jobs, leases, reap
from jobs.store.catchup import walk
from jobs.store.catchup.walk import Past
from jobs.store.leases import Reign, Shard
from jobs.store.reap import Verdict
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, SECOND, make_job, make_trigger, row, take_lease

pytestmark = pytest.mark.django_db
TEN = 10 * SECOND


ALL = leases.divide(1)
SIX = leases.divide(6)


def take(holder: str, shards: Sequence[Shard] = ALL, *, most: int = 1) -> list[int | None]:
    """The terms taken."""
    return [shard.term for shard in leases.take(shards, holder=holder, most=most, duration=TEN).shards]


def held(holder: str = "one", shards: Sequence[Shard] = ALL, *, most: int = 256) -> list[Shard]:
    return leases.take(shards, holder=holder, most=most, duration=TEN).shards


class TestDivide:
    @pytest.mark.parametrize("number", [1, 2, 3, 6, 7, 100, 255, 256])
    def test_gives_each_partition_to_exactly_one_shard_and_evenly(self, number: int) -> None:
        shards = leases.divide(number)
        covered = [partition for shard in shards for partition in range(shard.first, shard.last + 1)]
        assert covered == list(range(256))
        sizes = [shard.last - shard.first + 1 for shard in shards]
        assert (len(shards), max(sizes) - min(sizes) <= 1) == (number, True)

    def test_names_no_two_shards_of_any_division_alike(self) -> None:
        names = [shard.lease for number in (1, 2, 6, 12, 256) for shard in leases.divide(number)]
        assert (len(set(names)), max(map(len, names)) <= 64) == (len(names), True)
        assert names[0] == "leader"


class TestTake:
    def test_is_granted_once(self) -> None:
        assert take("one") == [1]
        assert take("two") == []

    def test_begins_a_new_term_after_expiry(self, clock: Any) -> None:
        take("one")
        clock(TEN - SECOND)
        assert take("two") == []
        clock(TEN + SECOND)
        assert take("two") == [2]

    def test_begins_a_new_term_for_the_same_holder(self) -> None:
        take("one")
        assert take("one") == [2]

    def test_keeps_leases_of_other_divisions_apart(self) -> None:
        take("one")
        assert take("two", SIX, most=6) == [1] * 6
        assert take("three", leases.divide(5), most=5) == [1] * 5

    def test_takes_no_more_than_asked_and_another_the_rest(self) -> None:
        mine, theirs = held("one", SIX, most=4), held("two", SIX)
        assert (len(mine), len(theirs)) == (4, 2)
        assert sorted([*mine, *theirs], key=lambda shard: shard.first) == [replace(s, term=1) for s in SIX]

    def test_says_whether_something_may_have_been_left_half_done(self, clock: Any) -> None:
        def abandoned(holder: str) -> bool:
            return leases.take(ALL, holder=holder, most=1, duration=TEN).abandoned

        assert abandoned("one"), "who knows what was before the first"
        leases.release(held("one"), holder="one", handed_over=True)
        assert not abandoned("two")
        assert not abandoned("three"), "it got none"
        leases.release(held("two"), holder="two")
        assert abandoned("three")
        clock(TEN + SECOND)
        assert abandoned("one")


class TestRenew:
    def test_prolongs_exactly_these_reigns(self, clock: Any) -> None:
        mine = held()
        clock(9 * SECOND)
        assert leases.renew(mine, holder="one", duration=TEN) == mine
        clock(18 * SECOND)
        assert take("two") == []

    def test_does_not_revive_an_expired_reign(self, clock: Any) -> None:
        mine = held()
        clock(11 * SECOND)
        assert leases.renew(mine, holder="one", duration=TEN) == []

    @pytest.mark.parametrize("wrong", [{"term": 2}, {"holder": "two"}, {"lease": "other"}])
    def test_refuses_any_other_reign(self, wrong: dict[str, Any]) -> None:
        [mine] = held()
        holder = wrong.pop("holder", "one")
        assert leases.renew([replace(mine, **wrong)], holder=holder, duration=TEN) == []

    def test_tells_those_that_go_on_from_those_that_are_over(self, clock: Any) -> None:
        early = held("one", SIX[:2])
        clock(5 * SECOND)
        late = held("one", SIX[2:4])
        clock(11 * SECOND)
        assert leases.renew([*early, *late], holder="one", duration=TEN) == late


class TestRelease:
    def test_lets_a_standby_start_at_once(self) -> None:
        leases.release(held(), holder="one")
        assert take("two") == [2]

    def test_of_a_reign_that_is_over_is_harmless(self) -> None:
        old, new = held(), held()
        before = Lease.objects.values().get()
        leases.release(old, holder="one")
        assert Lease.objects.values().get() == before
        assert leases.renew(new, holder="one", duration=TEN) == new

    def test_leaves_the_holders_other_shards_alone(self) -> None:
        mine = held("one", SIX)
        leases.release(mine[4:], holder="one", handed_over=True)
        assert leases.renew(mine, holder="one", duration=TEN) == mine[:4]
        assert len(held("two", SIX)) == 2


class TestShare:
    def share(self, holder: str, shards: Sequence[Shard] = SIX) -> tuple[int, int, int]:
        return tuple(leases.share(shards, holder=f"host:1:{holder}", duration=TEN))  # type: ignore[return-value]

    def test_is_all_for_one_beat_and_even_among_several(self) -> None:
        assert self.share("a") == (6, 1, 0)
        assert self.share("b") == (3, 2, 0)
        assert [self.share(name) for name in "cab"] == [(2, 3, 0)] * 3

    def test_gives_the_odd_shard_to_who_holds_more_so_that_nothing_moves_for_it(self) -> None:
        for name in "abcd":
            self.share(name)
        held("host:1:d", SIX, most=2)
        held("host:1:b", SIX, most=2)
        held("host:1:a", SIX, most=1)
        assert [self.share(name)[0] for name in "abcd"] == [1, 2, 1, 2]

    def test_adds_up_to_all_shards_however_many_beats_there_are(self) -> None:
        for beats in range(1, 10):
            names = "abcdefghi"[:beats]
            self.share(names[-1])
            assert sum(self.share(name)[0] for name in names) == 6

    def test_counts_a_beat_until_its_word_expires(self, clock: Any) -> None:
        self.share("a")
        clock(8 * SECOND)
        assert self.share("b") == (3, 2, 0)
        clock(11 * SECOND)
        assert self.share("b") == (6, 1, 0)
        assert self.share("a") == (3, 2, 0), "it woke up"

    def test_does_not_count_one_that_departed(self) -> None:
        self.share("a")
        self.share("b")
        leases.depart(SIX, holder="host:1:a")
        assert self.share("b") == (6, 1, 0)

    def test_tells_of_beats_that_divide_otherwise_and_shares_nothing_with_them(self) -> None:
        self.share("a", leases.divide(4))
        held("host:1:a", leases.divide(4))
        assert self.share("b") == (6, 1, 5)
        held("old")
        assert self.share("b") == (6, 1, 6)

    def test_forgets_beats_that_are_long_gone_but_never_a_shards_term(self, clock: Any) -> None:
        self.share("a")
        held("host:1:a", SIX)
        clock(2 * HOUR)
        self.share("b")
        names = set(Lease.objects.values_list("name", flat=True))
        assert names == {"beat/6/b"} | {shard.lease for shard in SIX}
        assert self.share("a") == (3, 2, 0)


class TestDeposedReign:
    """The writes of an old term, of a term that expired, and (as the control) of the present one."""

    @pytest.fixture(params=["deposed", "expired", "present"])
    def reign(self, request: pytest.FixtureRequest, clock: Any) -> tuple[Reign, bool]:
        reign = take_lease(duration=timedelta(days=30) if request.param == "present" else TEN)
        if request.param != "present":
            clock(HOUR)
        if request.param == "deposed":
            take_lease(holder="two", duration=timedelta(days=30))
        return reign, request.param == "present"

    def test_materializes_only_while_it_lasts(self, reign: tuple[Reign, bool]) -> None:
        make_job(next_fire_at=factories.now())
        assert len(jobs.take_due(reign=reign[0], look_ahead=HOUR, limit=10)) == reign[1]

    def test_dispatches_only_while_it_lasts(self, reign: tuple[Reign, bool]) -> None:
        trigger = make_trigger()
        before = row(trigger)
        assert len(factories.dispatch(reign=reign[0]).queued) == reign[1]
        assert (row(trigger) == before) is not reign[1]

    def test_reaps_expired_leases_only_while_it_lasts(self, reign: tuple[Reign, bool]) -> None:
        trigger = make_trigger(state="running", lease_expires_at=factories.now() - HOUR)
        verdict = Verdict(factories.grip(trigger), TriggerState.RETRYING, "", timedelta())
        before = row(trigger)
        assert len(reap.reap_running([verdict], reign=reign[0])) == reign[1]
        assert (row(trigger) == before) is not reign[1]

    def test_reaps_messages_only_while_it_lasts(self, reign: tuple[Reign, bool]) -> None:
        trigger = make_trigger(state="queued", queued_at=factories.now() - HOUR)
        before = row(trigger)
        assert len(reap.reap_queued(reign=reign[0], deadline=SECOND, limit=9)) == reign[1]
        assert (row(trigger) == before) is not reign[1]


class TestReignOverShards:
    """A beat that holds two shards of six takes due jobs of theirs, while both its terms last."""

    @pytest.fixture
    def reign(self) -> Reign:
        mine = held("one", [SIX[1], SIX[4]])
        return Reign(mine[0].lease, "one", mine[0].term, tuple(mine))

    def due(self, reign: Reign) -> set[int]:
        """The partitions of the jobs taken."""
        taken = {row.id for row in jobs.take_due(reign=reign, look_ahead=HOUR, limit=300)}
        return set(Job.objects.filter(id__in=taken).values_list("partition_key", flat=True))

    @pytest.fixture(autouse=True)
    def one_job_a_partition(self) -> None:
        tenant, now = factories.make_tenant(), factories.now()
        for partition in range(256):
            make_job(tenant, partition_key=partition, next_fire_at=now)

    def test_takes_jobs_of_its_partitions_alone(self, reign: Reign) -> None:
        expected = [number for s in (SIX[1], SIX[4]) for number in range(s.first, s.last + 1)]
        assert self.due(reign) == set(expected)

    def test_takes_nothing_once_either_term_is_over(self, reign: Reign) -> None:
        Lease.objects.filter(name=SIX[4].lease).update(term=9, holder="two")
        assert self.due(reign) == set()

    def test_takes_nothing_once_it_expired_even_if_nobody_else_took_over(
        self, reign: Reign, clock: Any
    ) -> None:
        clock(TEN + SECOND)
        assert self.due(reign) == set()

    def test_of_every_shard_or_without_election_takes_all(self) -> None:
        mine = held("one", SIX)
        assert len(self.due(Reign(mine[0].lease, "one", 1, tuple(mine)))) == 256
        assert len(self.due(factories.ANYONE)) == 256

    def catch_ups(self, reign: Reign) -> set[tuple[str, int]]:
        """Policy and partition of the catch-up taken, to decide and to run."""
        rows = walk.take_undecided(reign=reign, after=UUID(int=0), limit=300)
        for tenant in Tenant.objects.all():
            rows += walk.take_decided(
                reign=reign, tenant_id=tenant.id, after=UUID(int=0), backlog=9, limit=300
            )
        keys = dict(Job.objects.values_list("id", "partition_key"))
        return {(row.policy, keys[row.job_id]) for row in rows}

    def test_catches_up_with_jobs_of_its_partitions_alone_and_while_its_terms_last(
        self, reign: Reign, clock: Any
    ) -> None:
        now = factories.now()
        pasts = [
            Past(job.id, job.tenant_id, 1, "outage", policy, now - HOUR, now)
            for job, policy in product(Job.objects.all(), ("skip", "fire_all"))
        ]
        walk.begin(pasts)
        mine = [number for s in (SIX[1], SIX[4]) for number in range(s.first, s.last + 1)]
        assert self.catch_ups(reign) == set(product(("skip", "fire_all"), mine))
        assert abs(reign.part - 1 / 3) < 0.01
        clock(TEN + SECOND)
        assert self.catch_ups(reign) == set()
        assert len(self.catch_ups(factories.ANYONE)) == 512

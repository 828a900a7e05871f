"""Beats that take, renew, lose and release the lease at the same moment: two never hold it, and no lock stops them."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from jobs.engine.firing import materializer
from jobs.engine.leader import LOCKED_SECONDS, Leader
from jobs.models import Job, Lease, Trigger
from jobs.store import leases
from jobs.store.db import Query
from tests import factories
from tests.factories import MINUTE, SECOND, make_job, make_tenant, take_lease
from tests.races.conftest import Rival, at_once

pytestmark = pytest.mark.django_db(transaction=True)
TEN = 10 * SECOND


def look(leader: Leader) -> bool:
    """Let it renew or take the lease now. Returns whether it leads."""
    leader._renew_after = 0.0
    return leader.lead() is not None


class TestBeatsThatStartTogether:
    def test_come_to_one_leader(self) -> None:
        leaders = [Leader(lease=TEN) for _ in range(4)]
        for _ in range(3):
            assert sum(at_once(*[partial(look, leader) for leader in leaders])) == 1
        [leading] = [leader for leader in leaders if leader.leadership]
        assert list(Lease.objects.values_list("name", "holder")) == [("leader", leading._holder)]


class TestTwoOnTheLease:
    def test_of_several_that_take_it_one_gets_it(self) -> None:
        def take(holder: str) -> Callable[[], bool]:
            def work() -> bool:
                taken = leases.take(holder=holder, duration=TEN)
                return taken is not None and taken.term is not None

            return work

        for _ in range(10):
            assert sum(at_once(take("one"), take("two"), take("three"))) == 1
            Lease.objects.update(expires_at=factories.now() - SECOND)

    def test_a_renewal_that_meets_the_successor_does_not_wait_and_is_refused_later(
        self, rival: Rival
    ) -> None:
        mine = take_lease(duration=timedelta())
        rival.do(partial(factories.set_clock, -MINUTE))  # to the rival nothing has expired yet
        renew = partial(leases.renew, mine, duration=TEN)
        with transaction.atomic():
            take_lease(holder="two")
            meanwhile = rival.do(renew)
        later = rival.do(renew)
        rival.do(partial(factories.set_clock, timedelta()))
        assert (meanwhile, later) == (True, None)


class TestLockedLease:
    """A session holds a lock on the lease's row, and does not release it."""

    @pytest.fixture
    def locked(self, rival: Rival) -> Iterator[None]:
        take_lease(holder="nobody", duration=timedelta())
        lock = Query("lock", "SELECT FROM jobs_lease FOR UPDATE")
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(lock)
        yield
        rival.do(lambda: connection.close())

    def test_is_neither_waited_for_nor_taken_and_beats_lead_without_a_term(
        self, locked: None, rival: Rival
    ) -> None:
        leader = Leader(lease=TEN)
        assert not look(leader), "another beat may be taking it just now"
        assert not look(leader)
        assert leader._locked_since is not None
        leader._locked_since -= LOCKED_SECONDS
        leader._renew_after = 0.0
        leadership = leader.lead()
        assert (leadership and leadership.term, leader._wait) == (None, LOCKED_SECONDS)
        assert look(leader), "and go on"
        rival.do(lambda: connection.rollback())
        leader._renew_after = 0.0
        leadership = leader.lead()
        assert leadership is not None
        assert (leadership.term, leader._locked_since) == (2, None)

    def test_is_led_on_under_its_term_until_it_runs_out(self, rival: Rival) -> None:
        leader = Leader(lease=TEN)
        first = leader.lead()
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(Query("lock", "SELECT FROM jobs_lease FOR UPDATE"))
        leader._renew_after = 0.0
        assert leader.lead() is first
        assert leader._locked_since is not None
        leader._locked_since -= LOCKED_SECONDS
        factories.set_clock(TEN)
        leader._renew_after = 0.0
        last = leader.lead()
        factories.set_clock(timedelta())
        rival.do(lambda: connection.close())
        assert (first and first.term, last and last.term) == (1, None)
        assert last is not None


class TestALeaseThatExpiresAllTheTime:
    """A lease of a few milliseconds: renewals, expiry, takings and hand-overs meet in every possible way."""

    def test_gives_each_term_to_one_holder_and_blocks_nobody_for_good(self) -> None:
        leaderships: dict[int | None, set[str]] = defaultdict(set)

        def live() -> None:
            for life in range(4):
                leader = Leader(lease=timedelta(milliseconds=4))
                for _ in range(40):
                    look(leader)
                    if leader.leadership and leader.leadership.term is not None:
                        leaderships[leader.leadership.term].add(leader._holder)
                if life % 2:
                    leader.hand_over()

        at_once(*[live] * 4)
        assert len(leaderships) > 5
        assert {len(holders) for holders in leaderships.values()} == {1}


class TestBeatsThatComeAndGo:
    def test_lose_and_double_no_firing(self) -> None:
        moment = factories.now().replace(microsecond=0)
        tenant, since = make_tenant(), moment - 5 * MINUTE
        for _ in range(64):
            make_job(
                tenant,
                interval=SECOND,
                created_at=since,
                next_fire_at=since + SECOND,
                misfire_grace=timedelta(hours=1),
            )

        def live(rounds: int) -> Callable[[], None]:
            def work() -> None:
                leader = Leader(lease=timedelta(milliseconds=200))
                for number in range(rounds):
                    if number % 3 == 0:
                        leader._renew_after = 0.0
                    if leadership := leader.lead():
                        materializer.materialize(leadership=leadership, look_ahead=SECOND, limit=5)

            return work

        at_once(live(200), live(10), live(40), live(200))
        last = Leader(lease=TEN)
        Lease.objects.all().update(expires_at=moment - SECOND)
        leadership = last.lead()
        assert leadership is not None
        while materializer.materialize(leadership=leadership, look_ahead=SECOND, limit=100) == 100:
            pass
        for job in Job.objects.all():
            instants = sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))
            assert instants == [since + SECOND * k for k in range(1, len(instants) + 1)]
            assert (len(instants) >= 300, job.next_fire_at) == (True, instants[-1] + SECOND)

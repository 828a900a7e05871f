"""The lease: who leads, by the database's clock alone; and a deposed leadership, whose writes change nothing."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from jobs.core.states import TriggerState
from jobs.models import Lease
from jobs.store import jobs, leases, reap
from jobs.store.catchup import walk
from jobs.store.catchup.walk import Past
from jobs.store.leases import Leadership
from jobs.store.reap import Recovery
from tests import factories
from tests.factories import HOUR, SECOND, make_job, make_trigger, row, take_lease

pytestmark = pytest.mark.django_db
TEN = 10 * SECOND


def take(holder: str) -> int | None:
    """The term, if the lease was taken."""
    taken = leases.take(holder=holder, duration=TEN)
    return None if taken is None else taken.term


class TestTake:
    def test_is_granted_once(self) -> None:
        assert take("one") == 1
        assert take("two") is None

    def test_begins_a_new_term_after_expiry(self, clock: Any) -> None:
        take("one")
        clock(TEN - SECOND)
        assert take("two") is None
        clock(TEN + SECOND)
        assert take("two") == 2

    def test_begins_a_new_term_for_the_same_holder(self) -> None:
        take("one")
        assert take("one") == 2

    def test_waits_until_it_has_been_free_for_as_long_as_it_is_told(self, clock: Any) -> None:
        take("one")
        clock(TEN + SECOND)
        assert leases.take(holder="two", duration=TEN, idle=2 * SECOND) is None
        clock(TEN + 2 * SECOND)
        term, abandoned, free_for = leases.take(holder="two", duration=TEN, idle=2 * SECOND) or (
            0,
            False,
            None,
        )
        assert (term, abandoned) == (2, True)
        assert free_for is not None
        assert 2 * SECOND <= free_for < TEN

    def test_says_whether_another_may_have_left_something_half_done(self, clock: Any) -> None:
        def abandoned(holder: str) -> bool:
            taken = leases.take(holder=holder, duration=TEN)
            return taken is not None and taken.abandoned

        assert abandoned("one"), "who knows what was before the first"
        assert not abandoned("one"), "it was its own"
        assert not abandoned("two"), "it got none"
        clock(TEN + SECOND)
        assert abandoned("two")


class TestRenew:
    def test_prolongs_exactly_this_leadership(self, clock: Any) -> None:
        mine = take_lease()
        clock(9 * SECOND)
        assert leases.renew(mine, duration=TEN) is False
        clock(18 * SECOND)
        assert take("two") is None

    def test_does_not_revive_an_expired_leadership(self, clock: Any) -> None:
        mine = take_lease()
        clock(11 * SECOND)
        assert leases.renew(mine, duration=TEN) is None

    @pytest.mark.parametrize("wrong", [{"term": 2}, {"holder": "two"}])
    def test_refuses_any_other_leadership(self, wrong: dict[str, Any]) -> None:
        assert leases.renew(replace(take_lease(), **wrong), duration=TEN) is None


class TestRelease:
    def test_lets_a_standby_start_at_once(self) -> None:
        leases.release(take_lease())
        assert take("two") == 2

    def test_of_a_leadership_that_is_over_is_harmless(self) -> None:
        old, new = take_lease(), take_lease()
        before = Lease.objects.values().get()
        leases.release(old)
        assert Lease.objects.values().get() == before
        assert leases.renew(new, duration=TEN) is False


class TestDeposedLeadership:
    """The writes of an old term, of a term that expired, and (as the control) of the present one."""

    @pytest.fixture(params=["deposed", "expired", "present"])
    def leadership(self, request: pytest.FixtureRequest, clock: Any) -> tuple[Leadership, bool]:
        leadership = take_lease(duration=timedelta(days=30) if request.param == "present" else TEN)
        if request.param != "present":
            clock(HOUR)
        if request.param == "deposed":
            take_lease(holder="two", duration=timedelta(days=30))
        return leadership, request.param == "present"

    def test_materializes_only_while_it_lasts(self, leadership: tuple[Leadership, bool]) -> None:
        make_job(next_fire_at=factories.now())
        assert len(jobs.take_due(leadership=leadership[0], look_ahead=HOUR, limit=10)) == leadership[1]

    def test_dispatches_only_while_it_lasts(self, leadership: tuple[Leadership, bool]) -> None:
        trigger = make_trigger()
        before = row(trigger)
        assert len(factories.dispatch(leadership=leadership[0]).queued) == leadership[1]
        assert (row(trigger) == before) is not leadership[1]

    def test_reaps_expired_leases_only_while_it_lasts(self, leadership: tuple[Leadership, bool]) -> None:
        trigger = make_trigger(state="running", lease_expires_at=factories.now() - HOUR)
        recovery = Recovery(factories.claim_token(trigger), TriggerState.RETRYING, "", timedelta())
        before = row(trigger)
        assert len(reap.reap_running([recovery], leadership=leadership[0])) == leadership[1]
        assert (row(trigger) == before) is not leadership[1]

    def test_reaps_messages_only_while_it_lasts(self, leadership: tuple[Leadership, bool]) -> None:
        trigger = make_trigger(state="queued", queued_at=factories.now() - HOUR)
        before = row(trigger)
        assert len(reap.reap_queued(leadership=leadership[0], deadline=SECOND, limit=9)) == leadership[1]
        assert (row(trigger) == before) is not leadership[1]

    def test_catches_up_only_while_it_lasts(self, leadership: tuple[Leadership, bool]) -> None:
        now, waits, runs = factories.now(), make_job(), make_job()
        walk.begin(
            [
                Past(job.id, job.tenant_id, 1, "outage", policy, now - HOUR, now)
                for job, policy in ((waits, "skip"), (runs, "fire_all"))
            ]
        )
        undecided = walk.take_undecided(leadership=leadership[0], after=UUID(int=0), limit=9)
        decided = walk.take_decided(
            leadership=leadership[0], tenant_id=runs.tenant_id, after=UUID(int=0), backlog=9, limit=9
        )
        assert (len(undecided), len(decided)) == (leadership[1], leadership[1])

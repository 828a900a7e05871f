"""Leases: who leads, by the database's clock alone; and a deposed reign, whose writes change nothing."""

from datetime import timedelta
from typing import Any

import pytest

from jobs.core.states import TriggerState
from jobs.models import Lease
from jobs.store import jobs, leases, reap
from jobs.store.leases import Reign
from jobs.store.reap import Verdict
from tests import factories
from tests.factories import HOUR, SECOND, make_job, make_trigger, row, take_lease

pytestmark = pytest.mark.django_db
TEN = 10 * SECOND


def take(holder: str) -> Reign | None:
    return leases.take(lease="leader", holder=holder, duration=TEN)


class TestTake:
    def test_is_granted_once(self) -> None:
        assert take("one") == Reign("leader", "one", 1)
        assert take("two") is None

    def test_begins_a_new_term_after_expiry(self, clock: Any) -> None:
        take("one")
        clock(TEN - SECOND)
        assert take("two") is None
        clock(TEN + SECOND)
        assert take("two") == Reign("leader", "two", 2)

    def test_begins_a_new_term_for_the_same_holder(self) -> None:
        take("one")
        assert take("one") == Reign("leader", "one", 2)

    def test_keeps_leases_of_other_names_apart(self) -> None:
        take("one")
        assert leases.take(lease="other", holder="two", duration=TEN) == Reign("other", "two", 1)


class TestRenew:
    def test_prolongs_exactly_this_reign(self, clock: Any) -> None:
        reign = take_lease()
        clock(9 * SECOND)
        assert leases.renew(reign, duration=TEN)
        clock(18 * SECOND)
        assert take("two") is None

    def test_does_not_revive_an_expired_reign(self, clock: Any) -> None:
        reign = take_lease()
        clock(11 * SECOND)
        assert not leases.renew(reign, duration=TEN)

    @pytest.mark.parametrize("wrong", [{"term": 2}, {"holder": "two"}, {"lease": "other"}])
    def test_refuses_any_other_reign(self, wrong: dict[str, Any]) -> None:
        reign = take_lease()
        claimed = {"lease": reign.lease, "holder": reign.holder, "term": reign.term} | wrong
        assert not leases.renew(Reign(**claimed), duration=TEN)


class TestRelease:
    def test_lets_a_standby_start_at_once(self) -> None:
        reign = take_lease()
        leases.release(reign)
        assert take("two") == Reign("leader", "two", 2)

    def test_of_a_reign_that_is_over_is_harmless(self) -> None:
        old = take_lease(holder="one")
        new = take_lease(holder="one")
        before = Lease.objects.values().get()
        leases.release(old)
        assert Lease.objects.values().get() == before
        assert leases.renew(new, duration=TEN)


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

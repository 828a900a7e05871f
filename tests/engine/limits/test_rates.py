"""The rates of tenants and of targets, as dispatch asks for them."""

import itertools
import time
from types import SimpleNamespace
from uuid import uuid4

import pytest

from jobs.limits import Buckets, Rates, target_bucket
from stage.waiting import wait_until
from tests.engine.limits.sharing import new_tenant, settled, timed
from tests.factories import MINUTE, SECOND, dispatch, make_job, make_tenant, make_triggers


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
        # The beat that leads when the rule changes takes back the turns that it knows of.
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
        # A dispatch that stalls: the triggers it dispatches are stamped at its end.
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
        assert max(took, again) < 2.5  # one by one, 60 answers would take at least 3 s

"""How triggers that a target's rule holds back are let go, where many of them wait."""

from unittest.mock import Mock

import pytest

from jobs.models import TargetRule, Trigger
from jobs.store import dispatch as dispatch_store
from tests.factories import dispatch, make_job, make_tenant, make_trigger, release_targets, row
from tests.store.targets.rules import HOST, change, make_calling, pause

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestRelease:
    def test_walks_on_where_many_wait(self) -> None:
        tenant = make_tenant()
        triggers = [make_calling(1, f"h{n}.example", tenant=tenant)[0] for n in range(5)]
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        rules, releasing = dispatch_store.targets.rules(), dispatch_store.Releasing()
        assert [releasing.step(rules=rules, limit=2) for _ in range(3)] == [(2, True), (2, True), (1, False)]
        assert all(not row(trigger)["held"] for trigger in triggers)

    def test_looks_on_past_what_is_paused(self) -> None:
        """A thousand hosts under a pause must not keep a host waiting that is let go."""
        tenant = make_tenant()
        for n in range(6):
            make_calling(1, f"a{n}.example", tenant=tenant)
        (free,) = make_calling(1, "z.example", tenant=tenant)
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        pause("a*")
        releasing = dispatch_store.Releasing()
        assert releasing.step(rules=dispatch_store.targets.rules(), limit=2) == (1, False)
        assert not row(free)["held"]

    def test_a_slice_that_fails_keeps_none_of_the_others_waiting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tenant = make_tenant()
        triggers = [make_calling(1, f"h{n}.example", tenant=tenant)[0] for n in range(4)]
        pause("*")
        dispatch()
        TargetRule.objects.all().delete()
        rules, releasing = dispatch_store.targets.rules(), dispatch_store.Releasing()
        with monkeypatch.context() as broken:
            broken.setattr("jobs.store.dispatch.targets._columns", Mock(side_effect=OSError("too slow")))
            with pytest.raises(OSError, match="too slow"):
                releasing.step(rules=rules, limit=3)
        assert releasing.step(rules=rules, limit=3) == (1, False)
        assert [row(trigger)["held"] for trigger in triggers] == [True, True, True, False]
        assert releasing.step(rules=rules, limit=3)[0] == 3

    def test_a_caps_room_is_shared_by_those_who_wait(self) -> None:
        """If each were shown as many as there is room for, dispatch would park all but these again, turn by turn."""
        tenants = [make_tenant(slug=f"t{n}") for n in range(6)]
        for tenant in tenants:
            make_calling(5, HOST, tenant=tenant)
        pause()
        dispatch()
        change(paused=False, max_in_flight=4)
        shown, more = dispatch_store.Releasing().step(rules=dispatch_store.targets.rules(), limit=100)
        assert (shown, more) == (4, True)
        seen = Trigger.objects.filter(held=False).values_list("tenant_id", flat=True)
        assert len(set(seen)) == 4

    def test_the_most_urgent_are_shown_first(self) -> None:
        tenant = make_tenant()
        make_calling(3, HOST, tenant=tenant, priority=3)
        (urgent,) = make_calling(1, HOST, tenant=tenant, priority=0)
        pause()
        dispatch()
        change(paused=False, max_in_flight=1)
        release_targets()
        assert [trigger.id for trigger in Trigger.objects.filter(held=False)] == [urgent.id]

    def test_leaves_alone_what_waits_for_something_else(self) -> None:
        job = make_job(target=HOST, overlap_policy="queue")
        make_trigger(job, "running")
        waiting = make_trigger(job)
        dispatch()
        assert row(waiting)["parked"]
        release_targets()
        assert row(waiting)["parked"]

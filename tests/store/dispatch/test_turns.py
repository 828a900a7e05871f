"""Dispatch: who goes next (DESIGN §8), decided on rows alone."""

from collections import Counter
from typing import Any

import pytest

from jobs.core.backlog import News, turns
from jobs.core.backlog.shares import FIRST_DEPTH
from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store.dispatch import choice
from tests import factories
from tests.factories import (
    HOUR,
    MINUTE,
    SECOND,
    dispatch,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
    row,
)
from tests.store.dispatch.queued import shares

pytestmark = pytest.mark.django_db


class TestDispatch:
    def test_queues_what_is_due_under_a_new_fence(self) -> None:
        trigger = make_trigger(make_job(version=3), fence=4)
        result = dispatch()
        assert result.queued == [
            dispatch_store.Queued(
                trigger.id, 5, "noop", tenant_id=trigger.tenant_id, priority=trigger.priority
            )
        ]
        stored = row(trigger)
        assert (stored["state"], stored["fence"], stored["job_version"]) == ("queued", 5, 3)
        assert stored["queued_at"] is not None

    def test_says_who_travels_alone(self) -> None:
        suspect = make_trigger(suspect=True)
        once = make_trigger(make_job(delivery="at_most_once"))
        found = {item.id: (item.suspect, item.at_most_once) for item in dispatch().queued}
        assert found == {suspect.id: (True, False), once.id: (False, True)}

    def test_is_never_early(self, clock: Any) -> None:
        trigger = make_trigger(due_at=factories.now() + MINUTE, scheduled_for=factories.now())
        assert dispatch().queued == []
        clock(MINUTE + SECOND)
        assert [item.id for item in dispatch().queued] == [trigger.id]

    def test_looks_no_more_at_a_tenant_whose_triggers_may_not_start(self) -> None:
        stuck = make_job(max_concurrent=1)
        make_trigger(stuck, "running")
        make_triggers(stuck, 200)
        make_triggers(make_job(make_tenant()), 40)
        # One place or two are spent on finding that the other tenant may start nothing more.
        assert len(dispatch(limit=20).queued) >= 18

    def test_goes_by_due_time_within_a_level(self) -> None:
        job = make_job()
        triggers = make_triggers(job, 5)
        expected = [trigger.id for trigger in triggers]
        assert [item.id for item in dispatch().queued] == expected

    def test_retries_what_is_due_again(self) -> None:
        trigger = make_trigger(state="retrying", attempt_count=2)
        assert len(dispatch().queued) == 1
        assert row(trigger)["attempt_count"] == 2

    def test_leaves_job_types_nobody_serves(self) -> None:
        make_trigger(make_job(job_type="other"))
        result = dispatch()
        assert (result.queued, result.blocked) == ([], False)

    def test_takes_no_more_than_the_limit(self) -> None:
        make_triggers(make_job(), 5)
        result = dispatch(limit=3)
        assert (len(result.queued), result.blocked) == (3, False)
        assert len(dispatch(limit=3).queued) == 2


class TestLongTurn:
    """Lanes that ran empty are found out by looks in vain, and a critical trigger falls due meanwhile."""

    @pytest.fixture
    def memory(self) -> dispatch_store.Memory:
        memory = dispatch_store.Memory()
        dispatch(memory=memory)
        memory.note([News(make_tenant().id, "noop", 2, factories.now() - SECOND)])
        return memory

    @pytest.mark.parametrize(("seconds", "cut_short"), [(-1.0, True), (60.0, False)])
    def test_ends_with_a_look_in_vain(
        self, memory: dispatch_store.Memory, monkeypatch: pytest.MonkeyPatch, seconds: float, cut_short: bool
    ) -> None:
        monkeypatch.setattr(choice, "PICK_SECONDS", seconds)
        assert dispatch(memory=memory).cut_short is cut_short
        assert not dispatch(memory=memory).cut_short

    def test_looks_past_what_must_wait(
        self, memory: dispatch_store.Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(choice, "PICK_SECONDS", -1.0)
        waiting = make_job(overlap_policy="queue", max_concurrent=1)
        make_trigger(waiting, "running")
        make_triggers(waiting, 50, scheduled_for=factories.now() - HOUR)
        behind = make_trigger(make_job(waiting.tenant))
        assert [item.id for item in dispatch(memory=memory, limit=30).queued] == [behind.id]

    def test_goes_on_while_looks_find_something(
        self, memory: dispatch_store.Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(choice, "PICK_SECONDS", -1.0)
        monkeypatch.setattr(turns, "BY_TAG_ALONE", 0)
        make_triggers(make_job(), 3 * FIRST_DEPTH)
        assert len(dispatch(memory=memory).queued) == 3 * FIRST_DEPTH


class TestFairness:
    def test_interleaves_priorities_8_4_2_1(self) -> None:
        tenant = make_tenant()
        for priority in range(4):
            make_triggers(make_job(tenant, priority=priority), 20)
        queued = dispatch(limit=15).queued
        assert shares(queued, by="priority") == {0: 8, 1: 4, 2: 2, 3: 1}

    def test_lets_a_lone_level_have_everything(self) -> None:
        make_triggers(make_job(priority=3), 20)
        assert len(dispatch(limit=15).queued) == 15

    def test_puts_the_critical_first(self) -> None:
        tenant = make_tenant()
        make_trigger(make_job(tenant, priority=3), scheduled_for=factories.now() - HOUR)
        critical = make_trigger(make_job(tenant, priority=0))
        assert [item.id for item in dispatch(limit=1).queued] == [critical.id]

    def test_starves_no_level_when_slots_come_one_by_one(self) -> None:
        tenant = make_tenant(max_in_flight=15)
        for priority in range(4):
            make_triggers(make_job(tenant, priority=priority), 70)
        assert self.served_one_by_one(room=15, rounds=60, by="priority") == {0: 32, 1: 16, 2: 8, 3: 4}

    def test_shares_slots_by_weight(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (heavy, light):
            make_triggers(make_job(tenant), 50)
        assert shares(dispatch(limit=40).queued) == {heavy.id: 30, light.id: 10}

    def test_gives_an_unused_share_to_the_others(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        make_triggers(make_job(heavy), 5)
        make_triggers(make_job(light), 50)
        assert shares(dispatch(limit=40).queued) == {heavy.id: 5, light.id: 35}

    def test_shares_a_full_window_by_weight_too(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (light, heavy):
            make_triggers(make_job(tenant), 50)
        assert shares(dispatch(window=8).queued) == {heavy.id: 6, light.id: 2}

    def test_starves_no_tenant_when_slots_come_one_by_one(self) -> None:
        heavy, light = make_tenant(weight=300), make_tenant(weight=100)
        for tenant in (light, heavy):
            make_triggers(make_job(tenant), 70)
        assert self.served_one_by_one(room=8, rounds=40) == {heavy.id: 30, light.id: 10}

    @staticmethod
    def served_one_by_one(*, room: int, rounds: int, by: str = "tenant_id") -> Counter[Any]:
        """Fill ``room`` slots, then free the oldest and dispatch one, ``rounds`` times. Counts who got the slots."""
        waiting = [item.id for item in dispatch(window=room).queued]
        served: list[dispatch_store.Queued] = []
        for _ in range(rounds):
            Trigger.objects.filter(id=waiting.pop(0)).update(state="succeeded")
            [item] = dispatch(window=room).queued
            waiting.append(item.id)
            served.append(item)
        return shares(served, by=by)


class TestNextDue:
    def test_names_the_time_to_the_next_trigger(self) -> None:
        make_trigger()
        assert dispatch(limit=1).seconds_to_next is None
        make_trigger(due_at=factories.now() + 30 * SECOND, state="retrying")
        make_trigger(due_at=factories.now() + 10 * SECOND, held=True)
        seconds = dispatch().seconds_to_next
        assert seconds is not None
        assert 25 < seconds <= 30


class TestBlocked:
    def test_is_said_while_due_work_may_not_start(self) -> None:
        job = make_job(max_concurrent=1)
        make_trigger(job, "running")
        make_trigger(job)
        assert dispatch().blocked

    def test_is_not_said_of_an_empty_ledger(self) -> None:
        assert dispatch() == dispatch_store.Dispatched()


class TestVersion:
    def test_is_the_jobs_present_one_from_dispatch_on(self) -> None:
        trigger = make_trigger(make_job(version=2), job_version=1)
        dispatch()
        trigger.refresh_from_db()
        assert len(factories.claim(trigger)) == 1

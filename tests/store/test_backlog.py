"""The dispatcher's memory: it hears of every trigger that becomes dispatchable, and is only a memory (DESIGN §8)."""

import time
from datetime import timedelta
from typing import Any

import pytest

from jobs.core.backlog import News
from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store
from jobs.store.dispatch import Memory
from jobs.store.dispatch import memory as memory_module
from jobs.store.dispatch.missed import Patrol
from jobs.store.leases import Leadership
from tests import factories
from tests.factories import (
    ANYONE,
    HOUR,
    MINUTE,
    SECOND,
    UNLIMITED,
    make_job,
    make_tenant,
    make_trigger,
    make_triggers,
)

pytestmark = pytest.mark.django_db
WINDOW = dispatch_store.Window(initial=1000, minimum=1000, maximum=1000, wait=SECOND)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A memory that has swept all lanes once, and never sweeps again."""
    dispatch_store.open_queues(["noop", "other"], WINDOW)
    found = Memory()
    turn(found)
    monkeypatch.setattr(found, "_sweep_at", float("inf"))
    return found


def turn(memory: Memory, *, leadership: Leadership = ANYONE, limit: int = 100) -> dispatch_store.Dispatched:
    """One dispatch, and the end of the missed firings that it found, as in a step of the leader."""
    done = dispatch_store.dispatch(
        memory=memory,
        leadership=leadership,
        caps={"noop": None, "other": None},
        window=WINDOW,
        limit=limit,
        rates=UNLIMITED,
    )
    done.ended |= memory.missed.end(limit=1000)
    return done


def dispatched(memory: Memory) -> list[Any]:
    """The triggers that a dispatch queues, without the step that ends sets."""
    done = dispatch_store.dispatch(
        memory=memory, leadership=ANYONE, caps={"noop": None}, window=WINDOW, limit=100, rates=UNLIMITED
    )
    return [item.id for item in done.queued]


def queued(memory: Memory, **options: Any) -> list[Any]:
    return [item.id for item in turn(memory, **options).queued]


class TestHearing:
    """Without a sweep: by announcements and notes alone."""

    def test_of_new_triggers(self, memory: Memory) -> None:
        trigger = make_trigger()
        assert queued(memory) == [trigger.id]
        assert queued(memory) == []

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"state": "running"}, {"state": "retrying"}),
            ({"state": "queued"}, {"state": "pending"}),
            ({"state": "dead"}, {"state": "pending", "reason": "", "finished_at": None}),
            ({"held": True}, {"held": False}),
            ({"held": True, "parked": True}, {"held": False, "parked": False}),
            ({"job_type": "unserved"}, {"job_type": "other"}),
        ],
    )
    def test_of_each_way_back(self, memory: Memory, before: dict[str, Any], after: dict[str, Any]) -> None:
        trigger = make_trigger(make_job(job_type="other"), **before)
        assert queued(memory) == []
        Trigger.objects.filter(id=trigger.id).update(**after)
        assert queued(memory) == [trigger.id]

    def test_of_what_was_committed_late(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        """Behind a reading that took long, the next whole one waits."""
        trigger = make_trigger()
        Trigger.objects.filter(id=trigger.id).update(announced_at=factories.now() - SECOND)
        monkeypatch.setattr(memory, "_listen_at", float("inf"))
        assert queued(memory) == []
        monkeypatch.setattr(memory, "_listen_at", 0.0)
        assert queued(memory) == [trigger.id]

    def test_takes_a_share_of_the_time(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [time.monotonic()]
        monkeypatch.setattr(memory_module.time, "monotonic", lambda: now[0])
        heard: list[timedelta] = []
        news = memory_module._SQL["news"]

        def slow_news(since: Any) -> list[Any]:
            heard.append(memory._heard_to - since)
            now[0] += 0.1
            return news(since=since)

        monkeypatch.setitem(memory_module._SQL, "news", slow_news)
        for _ in range(12):
            memory.look(ANYONE)
        whole = [nth for nth, since in enumerate(heard) if since == memory_module.OVERLAP]
        # The others read for 0.1 s each: four of them to one.
        assert whole == [0, 5, 10]

    def test_of_a_trigger_that_is_brought_forward(self, memory: Memory) -> None:
        trigger = make_trigger(due_at=factories.now() + HOUR)
        assert queued(memory) == []
        Trigger.objects.filter(id=trigger.id).update(due_at=factories.now() - SECOND)
        assert queued(memory) == [trigger.id]

    def test_of_another_level(self, memory: Memory) -> None:
        trigger = make_trigger(make_job(priority=3), due_at=factories.now() + 2 * SECOND)
        turn(memory)
        Trigger.objects.filter(id=trigger.id).update(priority=0, due_at=factories.now())
        assert queued(memory) == [trigger.id]

    def test_of_what_falls_due_later(self, memory: Memory, clock: Any) -> None:
        trigger = make_trigger(due_at=factories.now() + MINUTE)
        assert queued(memory) == []
        seconds = turn(memory).seconds_to_next
        assert seconds is not None
        assert 50 < seconds <= 60
        clock(MINUTE + SECOND)
        assert queued(memory) == [trigger.id]

    def test_of_notes_from_the_materializer(self, memory: Memory) -> None:
        trigger = make_trigger()
        Trigger.objects.filter(id=trigger.id).update(announced_at=None)
        assert queued(memory) == []
        memory.note([News(trigger.tenant_id, "noop", 2, trigger.due_at)])
        assert queued(memory) == [trigger.id]

    def test_of_all_of_a_deep_lane(self, memory: Memory) -> None:
        expected = [trigger.id for trigger in make_triggers(make_job(), 25)]
        found = [trigger_id for _ in range(4) for trigger_id in queued(memory, limit=7)]
        assert found == expected

    def test_stops_where_nothing_waits(self, memory: Memory) -> None:
        make_triggers(make_job(), 5)
        turn(memory)
        assert len(memory.backlog) == 0


class TestSweeping:
    def test_finds_what_was_never_announced(self) -> None:
        memory = Memory()
        dispatch_store.open_queues(["noop"], WINDOW)
        turn(memory)
        expected = {make_trigger(make_job(make_tenant(), priority=level % 4)).id for level in range(9)}
        Trigger.objects.update(announced_at=None)
        found = set()
        for _ in range(3):
            memory._sweep_at = 0.0
            found |= set(queued(memory))
        assert found == expected

    def test_goes_on_in_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.store.dispatch.memory.SWEEP_LANES", 2)
        dispatch_store.open_queues(["noop"], WINDOW)
        expected = {make_trigger(make_job(make_tenant())).id for _ in range(7)}
        assert set(queued(Memory())) == expected

    def test_begins_afresh_under_a_new_leadership(self, memory: Memory) -> None:
        trigger = make_trigger()
        Trigger.objects.update(announced_at=None)
        assert queued(memory) == []
        assert queued(memory, leadership=Leadership("another", None)) == [trigger.id]

    def test_begins_afresh_when_the_clock_went_back(self, memory: Memory, clock: Any) -> None:
        clock(HOUR)
        turn(memory)
        clock(timedelta())
        trigger = make_trigger()
        assert queued(memory) == [trigger.id]


class TestFailing:
    def test_leaves_the_memory_as_it_was(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        """If a turn raised and the floor stayed up, the triggers would be hidden until a sweep comes by."""
        expected = [trigger.id for trigger in make_triggers(make_job(), 5)]
        with monkeypatch.context() as patch:
            patch.setattr("jobs.store.dispatch.choice.events.note", lambda ended: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                turn(memory)
        assert queued(memory) == expected


class TestMissed:
    def test_end_as_a_set_whatever_is_looked_at(self, memory: Memory) -> None:
        job = make_job(misfire_policy="fire_once", catchup_window=2 * HOUR)
        moment = factories.now()
        missed = [make_trigger(job, scheduled_for=moment - HOUR - n * MINUTE) for n in range(100)]
        result = turn(memory, limit=3)
        assert len(result.ended) >= 99
        reasons = dict(Trigger.objects.filter(state="skipped").values_list("id", "reason"))
        assert {reasons[trigger.id] for trigger in missed[:0:-1] if trigger.due_at > moment - 2 * HOUR} == {
            "coalesced"
        }
        assert {reasons[trigger.id] for trigger in missed if trigger.due_at < moment - 2 * HOUR - SECOND} == {
            "misfire"
        }
        turn(memory, limit=3)
        assert Trigger.objects.get(id=missed[0].id).state == "queued"

    def test_do_not_run_before_the_set_of_older_ones_has_ended(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise the newest of the older ones would run as well, in the turn after."""
        monkeypatch.setattr("jobs.store.dispatch.decisions.END_HERE", 2)
        job = make_job(misfire_policy="fire_once", overlap_policy="allow", max_concurrent=10)
        missed = [make_trigger(job, scheduled_for=factories.now() - n * MINUTE) for n in range(2, 9)]
        for _ in range(2):
            assert dispatched(memory) == []
        memory.missed.end(limit=1000)
        assert dispatched(memory) == [missed[0].id]

    def test_end_though_nothing_of_their_lane_may_start(self, memory: Memory) -> None:
        memory.patrol = Patrol()
        job = make_job(make_tenant(max_in_flight=1), misfire_policy="fire_once", catchup_window=2 * HOUR)
        make_trigger(job, "running")
        missed = [make_trigger(job, scheduled_for=factories.now() - n * MINUTE) for n in range(2, 50)]
        ended = turn(memory).ended
        assert set(ended) == {trigger.id for trigger in missed[1:]}
        assert set(ended.values()) == {"coalesced"}
        assert Trigger.objects.get(id=missed[0].id).state == "pending"

    def test_end_behind_firings_that_must_run(self, memory: Memory) -> None:
        tenant = make_tenant(max_in_flight=1)
        make_trigger(make_job(tenant), "running")
        make_triggers(make_job(tenant, misfire_policy="fire_all"), 50, scheduled_for=factories.now() - HOUR)
        skipping = make_job(tenant, misfire_policy="skip")
        missed = [make_trigger(skipping, scheduled_for=factories.now() - n * MINUTE) for n in range(2, 5)]
        ended: dict[Any, str] = {}
        for _ in range(5):
            memory.patrol._at = 0.0
            ended |= turn(memory).ended
        assert ended == {trigger.id: "misfire" for trigger in missed}

    def test_keep_the_newest_of_a_backfill(self, memory: Memory) -> None:
        job = make_job(misfire_policy="backfill", max_catchup=3, catchup_window=2 * HOUR)
        missed = [make_trigger(job, scheduled_for=factories.now() - n * MINUTE) for n in range(2, 50)]
        turn(memory, limit=3)
        turn(memory, limit=3)
        kept = set(Trigger.objects.exclude(state="skipped").values_list("id", flat=True))
        assert kept == {trigger.id for trigger in missed[:3]}


def test_a_trigger_whose_job_has_another_type_moves_there(memory: Memory) -> None:
    trigger = make_trigger(make_job(job_type="other"), job_type="noop", priority=3)
    assert queued(memory) == []
    assert (result := turn(memory).queued)[0].id == trigger.id
    assert result[0].job_type == "other"


class TestInFlight:
    """They are counted by time and by id. The count never walks past ended triggers."""

    @staticmethod
    def counted(memory: Memory) -> dict[str, tuple[int, int]]:
        rows = memory.in_flight.count(factories.now())
        found: dict[str, tuple[int, int]] = {}
        for row in rows:
            queued, in_flight = found.get(row.job_type, (0, 0))
            found[row.job_type] = (queued + row.queued, in_flight + row.in_flight)
        return found

    def test_is_counted_whenever_it_was_queued(self, memory: Memory, clock: Any) -> None:
        old = make_trigger(make_job(), "running", queued_at=factories.now() - HOUR)
        make_trigger(make_job(), "queued")
        assert self.counted(memory) == {"noop": (1, 2)}
        for seconds in (5, 20, 40):
            clock(seconds * SECOND)
            memory.in_flight._move_at = 0.0
            make_trigger(make_job(job_type="other"), "queued")
            found = self.counted(memory)
            assert found["noop"] == (1, 2)
        assert found["other"] == (3, 3)
        Trigger.objects.filter(id=old.id).update(state="succeeded")
        assert self.counted(memory)["noop"] == (1, 1)

    def test_that_is_queued_again_counts_once(self, memory: Memory, clock: Any) -> None:
        trigger = make_trigger(make_job(), "running", queued_at=factories.now() - HOUR)
        assert self.counted(memory) == {"noop": (0, 1)}
        Trigger.objects.filter(id=trigger.id).update(state="queued", queued_at=factories.now())
        assert self.counted(memory) == {"noop": (1, 1)}
        Trigger.objects.filter(id=trigger.id).update(state="retrying")
        assert self.counted(memory) == {}

    def test_is_counted_when_the_clock_went_back(self, memory: Memory, clock: Any) -> None:
        clock(HOUR)
        turn(memory)
        clock(timedelta())
        make_triggers(make_job(make_tenant(max_in_flight=2)), 2, "running")
        turn(memory)
        assert self.counted(memory) == {"noop": (0, 2)}

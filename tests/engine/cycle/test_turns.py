"""A beat's turn, stepped by hand: it carries firings on, sleeps within its limit, and stands by."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.engine import cycle as module
from jobs.models import Lease, Trigger
from jobs.store.dispatch import Dispatched, Queued
from jobs.store.execution import ClaimToken
from tests import factories
from tests.engine.conftest import Beat, Broker
from tests.engine.cycle.jobs import LONG_MS, Clock, instants, make_every
from tests.factories import SECOND, make_job, make_trigger, make_triggers, row, state_of


@pytest.mark.django_db
class TestTurn:
    def test_carries_a_firing_from_schedule_to_message(
        self, beat: Beat, broker: Broker, clock: Clock
    ) -> None:
        job = make_every(10)
        beat.step()
        assert (instants(job)[0], broker.messages) == (job.created_at + 10 * SECOND, [])
        clock(11 * SECOND)
        beat.step()
        [message] = broker.messages
        first = Trigger.objects.get(job=job, scheduled_for=job.created_at + 10 * SECOND)
        assert (message.job_type, message.tokens) == ("noop", (ClaimToken(first.id, 1),))
        assert state_of(first) == ("queued", "")

    def test_sleeps_no_longer_than_until_the_next_trigger_is_due(
        self, make_beat: Callable[..., Beat]
    ) -> None:
        beat = make_beat(leader_election=False, max_sleep_ms=LONG_MS)
        make_trigger(due_at=factories.now() + timedelta(minutes=1))
        assert 0 < beat.step() <= 60

    def test_sleeps_at_most_the_cap_and_less_while_work_is_blocked(self, beat: Beat) -> None:
        assert beat.step() == 0.25
        job = make_job(max_concurrent=1)
        make_trigger(job, "running")
        make_trigger(job)
        assert beat.step() == module.BLOCKED_SECONDS

    def test_looks_less_often_for_room_in_queues_that_hold_enough(
        self, make_beat: Callable[..., Beat], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "AMPLE_SECONDS", 600.0)
        beat = make_beat(leader_election=False, queue_window_initial=16, max_sleep_ms=LONG_MS)
        make_triggers(make_job(), 40)
        assert beat.step() == module.BLOCKED_SECONDS, "the queue was empty"
        queued = [token.id for token in beat.broker.tokens]
        Trigger.objects.filter(id__in=queued[:4]).update(state="succeeded")
        assert beat.step() == module.AMPLE_SECONDS
        make_trigger(make_job(), due_at=factories.now() + timedelta(minutes=1))
        Trigger.objects.filter(id__in=queued[4:8]).update(state="succeeded")
        assert 0 < beat.step() <= 60

    def test_does_not_sleep_while_a_full_batch_says_there_is_more(
        self, make_beat: Callable[..., Beat]
    ) -> None:
        beat = make_beat(dispatch_batch=3)
        make_triggers(make_job(), 7)
        assert [beat.turn() == 0 for _ in range(3)] == [True, True, False]
        assert len(beat.broker.tokens) == 7

    def test_completes_a_one_time_job_that_has_run(self, beat: Beat) -> None:
        moment = factories.now()
        job = make_job(schedule_type="once", interval=None, run_at=moment, next_fire_at=moment)
        beat.step()
        [trigger] = Trigger.objects.filter(job=job)
        beat.cycle.steps["complete"].hurry()
        beat.step()
        job.refresh_from_db()
        assert (job.status, job.next_fire_at) == ("active", None)
        Trigger.objects.filter(id=trigger.id).update(state="succeeded")
        beat.cycle.steps["complete"].hurry()
        beat.step()
        job.refresh_from_db()
        assert job.status == "completed"

    def test_stands_by_while_another_leads(self, make_beat: Callable[..., Beat], broker: Broker) -> None:
        leader, standby = make_beat(), make_beat()
        leader.turn()
        make_trigger()
        assert 10 / 3 * 0.7 <= standby.turn() <= 10 / 3
        assert broker.messages == []
        leader.cycle.leader.hand_over()
        standby.turn()
        assert len(broker.tokens) == 1

    def test_measures_the_clock_of_a_leader_and_of_a_standby(self, make_beat: Callable[..., Beat]) -> None:
        leader, standby = make_beat(), make_beat()
        for beat in (leader, standby):
            beat.turn()
            assert abs(beat.cycle._drift.reading.offset_seconds) < 1

    def test_of_a_deposed_leader_changes_nothing(
        self, make_beat: Callable[..., Beat], broker: Broker
    ) -> None:
        old = make_beat()
        old.turn()
        Lease.objects.update(term=99, holder="another")
        job, trigger = make_every(1), make_trigger()
        before = row(trigger)
        old.turn()
        assert (row(trigger), instants(job), broker.messages) == (before, [], [])

    def test_goes_on_with_the_reaping_while_the_broker_is_away(self, beat: Beat, broker: Broker) -> None:
        broker.up = False
        lost = make_trigger(state="running", lease_expires_at=factories.now() - SECOND)
        waiting = make_trigger()
        job = make_every(10)
        beat.step()
        assert [state_of(lost)[0], state_of(waiting)[0]] == ["retrying", "pending"]
        assert row(waiting)["fence"] == 0
        assert instants(job)
        broker.up = True
        beat.step()
        assert {token.id for token in broker.tokens} == {lost.id, waiting.id}

    def test_without_election_works_beside_another(
        self, make_beat: Callable[..., Beat], clock: Clock
    ) -> None:
        beats = [make_beat(leader_election=False) for _ in range(2)]
        job = make_every(2)
        for second in range(20):
            clock(second * SECOND)
            for beat in beats:
                beat.step()
        ids = [token.id for token in beats[0].broker.tokens]
        queued = Trigger.objects.filter(job=job, state="queued").order_by("scheduled_for")
        assert ids == list(queued.values_list("id", flat=True))
        assert len(ids) > 5
        assert not Lease.objects.exists()


@pytest.mark.django_db
class TestBurst:
    def test_lets_turns_grow_until_a_while_after_the_last_full_one(
        self, make_beat: Callable[..., Beat], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = module.FIRST_TURN, module.FIRST_TURN * module.TURN_GROWTH
        due, limits = [first, second, 1, 0, 0], []

        def dispatch(*, limit: int, **_: object) -> Dispatched:
            limits.append(limit)
            return Dispatched(queued=[Queued(factories.new_id(), 1, "noop")] * due[len(limits) - 1])

        monkeypatch.setattr(module, "dispatch", dispatch)
        beat = make_beat(leader_election=False, dispatch_batch=10 * second)
        for _ in due[1:]:
            beat.turn()
        monkeypatch.setattr(module, "BURST_SECONDS", 0.0)
        beat.turn()
        largest = second * module.TURN_GROWTH
        assert limits == [first, second, largest, largest, first]

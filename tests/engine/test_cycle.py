"""A beat's turn, stepped by hand: materialize, dispatch, publish, reap, keep house."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.core.calendar import plans
from jobs.engine import cycle as module
from jobs.engine.dispatcher import SINGLE_MESSAGES, Message, QueueConfig, messages
from jobs.engine.firing import materializer
from jobs.models import Job, Lease, Trigger
from jobs.store.dispatch import Queued
from jobs.store.dispatch import queues as dispatch_queues
from jobs.store.execution import ClaimToken
from jobs.store.jobs import schedule_of
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Broker
from tests.factories import MINUTE, SECOND, claim, make_job, make_trigger, make_triggers, row, state_of

Clock = Callable[[timedelta], None]


def make_every(seconds: int, **columns: Any) -> Job:
    """An interval job just created: its first firing lies one interval ahead."""
    created_at = factories.now().replace(microsecond=0)
    every = timedelta(seconds=seconds)
    plain = {"interval": every, "created_at": created_at, "next_fire_at": created_at + every}
    return make_job(**(plain | columns))


def instants(job: Job) -> list[datetime]:
    return sorted(Trigger.objects.filter(job=job).values_list("scheduled_for", flat=True))


def alive(other: Any, pid: int) -> bool:
    """Whether a backend of the database is there, as another connection sees it."""
    with other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


def packed(
    queued: Sequence[Queued], configs: Mapping[str, QueueConfig], *, before: int = 0, full: str = ""
) -> list[Message]:
    """The messages of a dispatch while ``before`` of each type are queued already."""
    depths = {name: before + count for name, count in Counter(item.job_type for item in queued).items()}
    return messages(queued, configs, depths=depths, full=full)


#: Turns take their time off the wait for what is due next: a busy machine's are to be short beside it.
LONG_MS = 3_600_000


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
class TestPublish:
    def test_that_fails_hands_the_triggers_back(self, beat: Beat, broker: Broker) -> None:
        triggers = make_triggers(make_job(), 3)
        broker.breaks = True
        beat.turn()
        assert [(row(t)["state"], row(t)["fence"]) for t in triggers] == [("pending", 1)] * 3
        [sent] = broker.tokens
        broker.breaks = False
        broker.messages.clear()
        beat.turn()
        assert {token.fence for token in broker.tokens} == {2}
        stale = Trigger.objects.get(id=sent.id)
        stale.fence = sent.fence
        assert claim(stale) == []

    def test_that_never_happened_is_made_up_for_after_the_deadline(
        self, beat: Beat, broker: Broker, clock: Clock
    ) -> None:
        """A beat killed between its commit and its publish."""
        trigger = make_trigger()
        factories.dispatch()
        clock(29 * SECOND)
        beat.step()
        assert broker.tokens == []
        clock(31 * SECOND)
        beat.step()
        beat.step()
        assert broker.tokens == [ClaimToken(trigger.id, 2)]

    @pytest.mark.parametrize(("age", "taken_back"), [(4 * SECOND, False), (6 * SECOND, True)])
    def test_of_a_dead_leader_is_made_up_for_by_its_successor_at_once(
        self, make_beat: Callable[..., Beat], broker: Broker, age: timedelta, taken_back: bool
    ) -> None:
        trigger = make_trigger(state="queued", queued_at=factories.now() - age)
        make_beat().turn()
        assert broker.tokens == [ClaimToken(trigger.id, 2)] * taken_back

    def test_sends_one_trigger_a_message_while_little_is_due(self) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(SINGLE_MESSAGES)]
        assert [len(m.tokens) for m in packed(queued, {"a": QueueConfig(None, 100)})] == [1] * len(queued)

    @pytest.mark.parametrize(
        ("number", "batch_size", "longest"), [(64, 100, 4), (1000, 100, 100), (1000, 5, 5)]
    )
    def test_lets_messages_grow_up_to_the_batch_size(
        self, number: int, batch_size: int, longest: int
    ) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(number)]
        found = packed(queued, {"a": QueueConfig(None, batch_size)})
        assert max(len(m.tokens) for m in found) == longest
        assert [token.id for m in found for token in m.tokens] == [item.id for item in queued]

    @pytest.mark.parametrize("kept", [0, 1])
    def test_keeps_urgent_work_in_messages_of_its_own_where_workers_keep_slots_for_it(
        self, settings: Any, kept: int
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"reserved_slots": kept})
        queued = [Queued(factories.new_id(), 1, "a", urgent=bool(number % 2)) for number in range(400)]
        found = packed(queued, {"a": QueueConfig(None, 100)})
        urgent = {item.id for item in queued if item.urgent}
        assert sum(len(message.tokens) for message in found) == 400
        for message in found:
            mixed = {token.id in urgent for token in message.tokens}
            assert (mixed == {message.urgent}) if kept else message.urgent
        assert found[0].urgent

    @pytest.mark.parametrize(("before", "sizes"), [(0, [1] * 20), (30, [3] * 6 + [2]), (200, [20])])
    def test_packs_small_dispatches_too_while_workers_are_behind(self, before: int, sizes: list[int]) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(20)]
        assert [len(m.tokens) for m in packed(queued, {"a": QueueConfig(None, 100)}, before=before)] == sizes

    @pytest.mark.parametrize(
        ("at_once", "full", "largest"), [(True, "a", 16), (True, "b", 1), (False, "a", 1)]
    )
    def test_packs_what_a_worker_runs_at_once_as_soon_as_more_is_due_than_the_queue_takes(
        self, at_once: bool, full: str, largest: int
    ) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(16)]
        found = packed(queued, {"a": QueueConfig(None, 50, at_once)}, full=full)
        assert max(len(m.tokens) for m in found) == largest

    @pytest.mark.django_db
    @pytest.mark.parametrize(("slow", "sizes"), [(False, [1] * 5), (True, [5])])
    def test_packs_what_a_worker_runs_at_once_while_the_broker_is_slow(
        self, beat: Beat, broker: Broker, monkeypatch: pytest.MonkeyPatch, slow: bool, sizes: list[int]
    ) -> None:
        monkeypatch.setattr(beat.cycle, "_slow", lambda: slow)
        make_triggers(make_job(job_type="webhook", max_concurrent=5, overlap_policy="allow"), 5)
        beat.step()
        assert [len(message.tokens) for message in broker.messages] == sizes

    def test_lets_a_suspect_travel_alone_and_the_others_as_before(self) -> None:
        queued = [Queued(factories.new_id(), 1, "a", suspect=n in (0, 60)) for n in range(200)]
        found = packed(queued, {"a": QueueConfig(None, 50)})
        assert [token.id for m in found for token in m.tokens if len(m.tokens) == 1][:2] == [
            queued[0].id,
            queued[60].id,
        ]
        assert sorted(len(m.tokens) for m in found)[-3:] == [40, 40, 40]
        assert {token.id for m in found for token in m.tokens} == {item.id for item in queued}

    @pytest.mark.parametrize(("at_once", "sizes"), [(False, {1}), (True, {40})])
    def test_lets_what_may_start_once_travel_alone_unless_all_start_together(
        self, at_once: bool, sizes: set[int]
    ) -> None:
        queued = [Queued(factories.new_id(), 1, "a", at_most_once=True) for _ in range(200)]
        found = packed(queued, {"a": QueueConfig(None, 50, at_once)})
        assert {len(m.tokens) for m in found} == sizes

    def test_never_mixes_job_types_in_a_message(self) -> None:
        queued = [Queued(factories.new_id(), 1, "ab"[n % 2]) for n in range(200)]
        found = packed(queued, {"a": QueueConfig(None, 50), "b": QueueConfig(None, 50)})
        kinds = {item.id: item.job_type for item in queued}
        assert all({kinds[token.id] for token in m.tokens} == {m.job_type} for m in found)


@pytest.mark.django_db
class TestMaterialize:
    def test_pauses_a_job_whose_schedule_is_broken_and_goes_on(self, beat: Beat) -> None:
        broken = make_every(10, schedule_type="cron", interval=None, cron_expression="no cron")
        unknown_zone = make_every(10, schedule_type="cron", cron_expression="* * * * *", timezone="Mars/Base")
        good = make_every(10)
        beat.step()
        for job in (broken, unknown_zone):
            job.refresh_from_db()
            assert (job.status, bool(job.status_reason), instants(job)) == ("paused", True, [])
        assert instants(good)

    def test_computes_a_shared_schedule_once(self, beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        real = plans.each_fire_time

        def counting(schedule: Any, **bounds: Any) -> Iterator[datetime]:
            asked.append(schedule)
            return real(schedule, **bounds)

        monkeypatch.setattr(plans, "each_fire_time", counting)
        monkeypatch.setattr(materializer, "PLANS", plans.PlanCache(schedule_of=schedule_of))
        cron = {"schedule_type": "cron", "interval": None, "cron_expression": "* * * * *"}
        minute = factories.now().replace(second=0, microsecond=0) + MINUTE
        beat.turn()
        same = [make_every(10, **cron, next_fire_at=minute) for _ in range(5)]
        other = make_every(10, **cron, next_fire_at=minute, timezone="Asia/Kolkata")
        beat.turn()
        assert len(asked) == 2
        assert {tuple(instants(job)) for job in [*same, other]} == {(minute,)}

    def test_keeps_a_jobs_jitter_the_same_for_every_firing(self, beat: Beat) -> None:
        jobs = [make_every(5, jitter=4 * SECOND) for _ in range(8)]
        beat.step()
        offsets = {
            job.id: {t.due_at - t.scheduled_for for t in Trigger.objects.filter(job=job)} for job in jobs
        }
        assert all(len(found) == 1 for found in offsets.values())
        assert all(timedelta() <= min(found) < 4 * SECOND for found in offsets.values())
        assert len({min(found) for found in offsets.values()}) > 1

    def test_ends_with_the_schedule(self, beat: Beat) -> None:
        job = make_every(10, ends_at=factories.now() + 25 * SECOND)
        beat.step()
        job.refresh_from_db()
        assert (len(instants(job)), job.next_fire_at) == (2, None)

    def test_shares_a_pass_among_jobs_after_a_long_outage(
        self, beat: Beat, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(materializer, "MAX_FIRINGS", 20)
        jobs = [make_every(1) for _ in range(4)]
        clock(MINUTE)
        beat.turn()
        assert [len(instants(job)) for job in jobs] == [5] * 4

    def test_says_that_more_wait_where_a_pass_cut_jobs_short(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(materializer, "MAX_FIRINGS", 8)
        jobs = [make_every(1) for _ in range(4)]
        clock(5 * SECOND)
        passes = iter(range(20))
        while materializer.materialize(leadership=factories.ANYONE, look_ahead=SECOND, limit=100) == 100:
            next(passes)
        # A second may end meanwhile: then one more is ahead.
        assert all(6 <= len(instants(job)) <= 7 for job in jobs)


@pytest.mark.django_db(transaction=True)
class TestDatabaseAway:
    def test_ends_the_turn_and_the_next_one_starts_afresh(self, beat: Beat, broker: Broker) -> None:
        beat.turn()
        trigger = make_trigger()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        other.close()
        assert beat.turn() == module.AWAY_SECONDS
        Lease.objects.update(expires_at=factories.now() - SECOND)
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_takes_a_transaction_ended_for_idling_for_a_server_away(
        self, beat: Beat, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So it is after the whole server was frozen: Postgres says 25P03, which is no OperationalError."""
        trigger = make_trigger()
        lock, other = dispatch_queues.lock, connection.copy()

        def idle(*arguments: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
            pid = connection.connection.info.backend_pid
            wait_until(lambda: not alive(other, pid), timeout=30, what="the end of the idle transaction")
            return lock(*arguments)

        monkeypatch.setattr(dispatch_queues, "lock", idle)
        assert beat.turn() == module.AWAY_SECONDS
        monkeypatch.undo()
        other.close()
        Lease.objects.update(expires_at=factories.now() - SECOND)
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_waits_for_a_standby_to_be_promoted(self, beat: Beat, broker: Broker) -> None:
        """Until then it answers, but takes no writes."""
        trigger = make_trigger()
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        assert beat.turn() == module.AWAY_SECONDS
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_bounds_how_long_a_frozen_beat_keeps_tenants_locked(self, beat: Beat) -> None:
        connection.close()
        beat.turn()
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("5s",)
        connection.close()

    def test_close_hands_the_lease_over_and_may_be_repeated(self, make_beat: Callable[..., Beat]) -> None:
        first, second = make_beat(), make_beat()
        first.turn()
        first.cycle.close()
        first.cycle.close()
        second.turn()
        assert Lease.objects.get().term == 2
        second.cycle.close()

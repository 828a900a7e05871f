"""Messages that a beat publishes: how failed ones are replaced, and how many triggers each one holds."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from jobs.engine import dispatcher
from jobs.engine.dispatcher import IN_A_ROW, SINGLE_MESSAGES, Message, QueueConfig, messages
from jobs.models import Trigger
from jobs.store.dispatch import Queued
from jobs.store.execution import ClaimToken
from tests import factories
from tests.engine.conftest import Beat, Broker
from tests.engine.cycle.jobs import Clock
from tests.factories import SECOND, claim, make_job, make_trigger, make_triggers, row


def packed(
    queued: Sequence[Queued],
    configs: Mapping[str, QueueConfig],
    *,
    before: int = 0,
    full: str = "",
    busy: bool = False,
) -> list[Message]:
    """The messages of a dispatch while ``before`` of each type are queued already."""
    depths = {name: before + count for name, count in Counter(item.job_type for item in queued).items()}
    return messages(queued, configs, depths=depths, full=full, busy=busy)


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
        queued = [Queued(factories.new_id(), 1, "a", priority=1 + number % 2) for number in range(400)]
        found = packed(queued, {"a": QueueConfig(None, 100)})
        urgent = {item.id for item in queued if item.urgent}
        assert sum(len(message.tokens) for message in found) == 400
        for message in found:
            mixed = {token.id in urgent for token in message.tokens}
            assert (mixed == {message.urgent}) if kept else message.urgent
        assert found[0].urgent

    def test_sends_the_more_urgent_of_those_in_a_row_first(self) -> None:
        queued = [
            Queued(factories.new_id(), 1, "a", priority=3 - number % 4) for number in range(2 * IN_A_ROW)
        ]
        sent = [
            token.id for message in packed(queued, {"a": QueueConfig(None, 1)}) for token in message.tokens
        ]
        priority = {item.id: item.priority for item in queued}
        in_order = [level for level in range(4) for _ in range(IN_A_ROW // 4)]
        assert [priority[one] for one in sent] == in_order * 2
        assert set(sent[:IN_A_ROW]) == {item.id for item in queued[:IN_A_ROW]}

    @pytest.mark.parametrize(("before", "sizes"), [(0, [1] * 20), (30, [3] * 6 + [2]), (200, [20])])
    def test_packs_small_dispatches_too_while_workers_are_behind(self, before: int, sizes: list[int]) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(20)]
        assert [len(m.tokens) for m in packed(queued, {"a": QueueConfig(None, 100)}, before=before)] == sizes

    @pytest.mark.parametrize(("number", "longest"), [(8, 1), (9, 2), (40, 5), (64, 8), (400, 100)])
    def test_packs_what_a_worker_runs_at_once_into_a_few_messages(self, number: int, longest: int) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(number)]
        found = packed(queued, {"a": QueueConfig(None, 100, at_once=True)})
        assert max(len(m.tokens) for m in found) == longest

    @pytest.mark.parametrize(("at_once", "longest"), [(True, 4), (False, 1)])
    def test_packs_that_into_fewer_where_processors_are_full(self, at_once: bool, longest: int) -> None:
        queued = [Queued(factories.new_id(), 1, "a") for _ in range(8)]
        found = packed(queued, {"a": QueueConfig(None, 100, at_once)}, busy=True)
        assert max(len(m.tokens) for m in found) == longest

    @pytest.mark.django_db
    @pytest.mark.parametrize(("seconds", "number"), [(0.0, 2), (3600.0, 8)])
    def test_knows_full_processors_by_the_time_that_its_turn_takes(
        self, beat: Beat, broker: Broker, monkeypatch: pytest.MonkeyPatch, seconds: float, number: int
    ) -> None:
        monkeypatch.setattr(dispatcher, "BUSY_SECONDS", seconds)
        make_triggers(make_job(job_type="webhook"), 8)
        beat.step()
        assert len(broker.messages) == number

    @pytest.mark.parametrize(
        ("at_once", "full", "largest"), [(True, "a", 16), (True, "b", 2), (False, "a", 1)]
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
